// The functions that a stand-in has no code for, generated: of those that are counted and succeed, and of those that end the
// process. Read and written by binutils' nm and readelf, which come with a compiler.
import { spawnSync } from "node:child_process";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

function output(program, args) {
  const { status, stdout, error } = spawnSync(program, args, { encoding: "utf8", maxBuffer: 1 << 28 });
  if (status !== 0) throw new Error(`${program}: ${error?.message ?? `exit code ${status}`}`);
  return stdout;
}

/** Functions that a library offers. */
export function exportsOf(library) {
  const lines = output("nm", ["-D", "--defined-only", library]).split("\n");
  return lines.flatMap((line) => /^\S+ [TWV] (\w+)/.exec(line)?.[1] ?? []);
}

const CUDA = /^(__)?(cu[A-Z]|cuda|cublas|cudnn|cufft|cupti|curand|cusolver|cusparse|nccl|nv)/;

/** CUDA's functions that these libraries want, each with the version it is bound to ("libcudart.so.13", or ""). */
export function undefinedOf(libraries) {
  const found = new Map();
  const own = new Set(libraries.flatMap(exportsOf));
  for (const library of libraries) {
    for (const line of output("nm", ["-D", "--undefined-only", library]).split("\n")) {
      const [, name, version = ""] = /^\s+[Uw] (\w+)(?:@(\S+))?/.exec(line) ?? [];
      if (name && CUDA.test(name) && !own.has(name)) found.set(name, { name, version });
    }
  }
  return [...found.values()];
}

const needed = (library) =>
  [...output("readelf", ["-d", library]).matchAll(/NEEDED.*\[(.+)\]/g)].map(([, name]) => name);

/** What is written by hand in C++: definitions at the beginning of a line, and products. */
function writtenIn(files) {
  const text = files.map((file) => readFileSync(file, "utf8")).join("\n");
  const defined = [...text.matchAll(/^(?:extern "C" )?[\w:*& ]+?[*& ]+(\w+)\(/gm)].map(([, name]) => name);
  return new Set([...defined, ...[...text.matchAll(/^PRODUCT\((\w+)\)/gm)].map(([, name]) => name)]);
}

/** The functions of a stand-in beyond `files`: counted, and successful. @returns {string[]} arguments for the compiler */
export function writeStandIn(folder, library, functions, files) {
  const written = writtenIn(files);
  const lines = functions
    .filter((name) => !written.has(name))
    .map((name) => `int ${name}() { nullcuda_unimplemented("${name}"); return 0; }`);
  const source = join(folder, `${library}.cc`);
  writeFileSync(source, `extern "C" {\nvoid nullcuda_unimplemented(const char*);\n${lines.join("\n")}\n}\n`);
  // The driver's functions have no version.
  if (library === "libcuda.so.1") return [source];
  const versions = join(folder, `${library}.map`);
  writeFileSync(versions, `${library} { global: *; };\n`);
  return [source, `-Wl,--version-script=${versions}`];
}

/**
 * One library for all others that PyTorch is linked to, whose functions end the process with their name.
 *
 * @param clients PyTorch's libraries
 * @param have names of libraries that there are
 */
export function writeRest(folder, clients, functions, have) {
  const source = join(folder, "rest.cc");
  const lines = functions.map(({ name }) =>
    // PyTorch asks the profiler's library for this at its start.
    name.startsWith("cupti")
      ? `int ${name}() { nullcuda_unimplemented("${name}"); return 0; }`
      : `int ${name}() { fprintf(stderr, "the null card has no ${name}\\n"); abort(); }`,
  );
  const head = '#include <cstdio>\n#include <cstdlib>\nextern "C" {\nvoid nullcuda_unimplemented(const char*);\n';
  writeFileSync(source, `${head}${lines.join("\n")}\n}\n`);
  const versions = new Map();
  for (const { name, version } of functions) versions.set(version, [...(versions.get(version) ?? []), name]);
  const nodes = [...versions]
    .filter(([version]) => version)
    .map(([version, names]) => `${version} { global: ${names.join("; ")}; };`);
  const script = join(folder, "rest.map");
  writeFileSync(script, `${nodes.join("\n")}\n`);
  const libraries = [...new Set(clients.flatMap(needed))].filter(
    (name) => /^lib(cu|nv|nccl)/.test(name) && !have.has(name),
  );
  return { files: [source, `-Wl,--version-script=${script}`], libraries };
}
