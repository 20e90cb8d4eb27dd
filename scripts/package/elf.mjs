// What a compiled file of Linux needs of the system, read by binutils' readelf.
import { basename } from "node:path";
import { GLIBC } from "./platforms.mjs";
import { PackageError, run } from "./run.mjs";

/** Libraries that every system with this glibc has. */
const SYSTEM = /^(lib(c|m|dl|rt|pthread)\.so\.\d+|ld-linux.*\.so\.\d+)$/;

/**
 * @param text of `readelf --version-info --dynamic --dyn-syms --wide`
 * @returns problems, a line each
 */
export function problemsOf(text, [major, minor] = GLIBC) {
  const problems = [];
  const versions = [...text.matchAll(/\bGLIBC_(\d+)\.(\d+)/g)].map(([, a, b]) => [Number(a), Number(b)]);
  const newest = versions.sort(([a, b], [c, d]) => a - c || b - d).at(-1);
  if (!newest) problems.push("it names no version of glibc: is it compiled for Linux?");
  else if (newest[0] > major || (newest[0] === major && newest[1] > minor))
    problems.push(`it needs glibc ${newest.join(".")}, newer than ${major}.${minor}`);
  for (const [, library] of text.matchAll(/\(NEEDED\)\s+Shared library: \[(.+?)\]/g)) {
    if (!SYSTEM.test(library)) problems.push(`it needs ${library}, which a system may lack`);
  }
  // Node is compiled with another C++ library, so nothing of ours may cross into it. The loader finds that at the call only.
  for (const [, symbol] of text.matchAll(/\bUND\s+(\S*St3__1\S*)/g))
    problems.push(`it calls ${symbol} of another library`);
  return problems;
}

/** @throws PackageError where the file would not run on every system that it is for */
export function checkElf(file) {
  const text = run("readelf", ["--version-info", "--dynamic", "--dyn-syms", "--wide", file]);
  const problems = problemsOf(text);
  if (problems.length > 0) throw new PackageError(`${basename(file)}: ${problems.join("; ")}`);
}
