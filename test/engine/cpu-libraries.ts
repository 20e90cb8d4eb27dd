/**
 * The CPU libraries of llama.cpp that node-llama-cpp ships beside each other, one for each generation of CPUs. llama.cpp
 * loads the best that the CPU can run; their kernels round differently, so a test that passes with one of them says
 * little about a machine that loads another.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, readdirSync, readFileSync, symlinkSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { everything } from "../support/everything.js";

export interface CpuLibrary {
  /** "haswell"; "" where there is one library for all CPUs. */
  readonly name: string;
  /** ggml's own: the more a library uses of the CPU, the more; 0 when the CPU cannot run it. */
  readonly score: number;
}

const platform = `linux-${process.arch}`;
const module = `@node-llama-cpp/${platform}`;
const SEVERAL = /^libggml-cpu-(.+)\.so$/;

/** Where the package of binaries is; undefined on systems for which there is one library only. */
function installed(): { folder: string; version: string } | undefined {
  if (process.platform !== "linux") return undefined;
  const root = dirname(dirname(fileURLToPath(import.meta.resolve(module))));
  const { version } = JSON.parse(readFileSync(join(root, "package.json"), "utf8")) as { version: string };
  return { folder: join(root, "bins", platform), version };
}

/** Asks each library for its score, as llama.cpp does before it chooses. */
const SCORES = `
import ctypes, json, sys
print(json.dumps([ctypes.CDLL(path).ggml_backend_score() for path in sys.argv[1:]]))`;

/**
 * All of them, the least demanding first.
 *
 * @param python any Python 3
 * @throws Error when a library cannot be asked
 */
export function cpuLibraries(python: string): CpuLibrary[] {
  const folder = installed()?.folder;
  const files = folder === undefined ? [] : readdirSync(folder).filter((file) => SEVERAL.test(file));
  if (folder === undefined || files.length === 0) return [{ name: "", score: 1 }];
  const asked = spawnSync(python, ["-c", SCORES, ...files.map((file) => join(folder, file))], { encoding: "utf8" });
  if (asked.status !== 0) throw new Error(`the CPU libraries in ${folder} have no score: ${asked.stderr}`);
  const scores = JSON.parse(asked.stdout) as number[];
  return files
    .map((file, i) => ({ name: SEVERAL.exec(file)?.[1] ?? "", score: scores[i] as number }))
    .sort((a, b) => a.score - b.score);
}

/**
 * Three that differ most: the one that needs least (which takes eight times as long: with `--full` alone), AVX2 without
 * AVX-512 (haswell) or the middle one, and the one that llama.cpp would choose. HONE_TEST_CPU_LIBRARIES names others ("sse42,zen4"), or "all".
 */
export function chosen(runnable: readonly CpuLibrary[]): CpuLibrary[] {
  const wanted = process.env.HONE_TEST_CPU_LIBRARIES;
  if (wanted === "all") return [...runnable];
  const named = (name: string) => runnable.find((library) => library.name === name);
  if (wanted)
    return wanted.split(",").map((name) => {
      const library = named(name);
      if (!library) throw new Error(`HONE_TEST_CPU_LIBRARIES: ${name} is no CPU library that this CPU can run`);
      return library;
    });
  const middle = named("haswell") ?? runnable[Math.floor(runnable.length / 2)];
  const least = everything ? runnable.at(0) : undefined;
  return [...new Set([least, middle, runnable.at(-1)])].filter((library) => library !== undefined);
}

/** What conversations.mjs needs to load this library and no other: a folder of links without the others. */
export function onlyWith({ name }: CpuLibrary, parent: string): object | undefined {
  const from = name === "" ? undefined : installed();
  if (!from) return undefined;
  const folder = join(parent, name);
  const into = join(folder, basename(from.folder));
  if (!existsSync(into)) {
    mkdirSync(into, { recursive: true });
    for (const file of readdirSync(from.folder)) {
      if ((SEVERAL.exec(file)?.[1] ?? name) === name) symlinkSync(join(from.folder, file), join(into, file));
    }
  }
  return { folder, version: from.version, module };
}
