/** Runs the programs that read and write models. */
import { existsSync, readdirSync, rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import type { Config } from "../../core/config/config.js";
import { HoneError } from "../../core/util/errors.js";
import { flush, moveDurably, removedAfter } from "../../core/util/files.js";
import { withLock } from "../../core/util/lock.js";
import { packageRoot } from "../../core/util/paths.js";
import { run as runToEnd } from "../../core/util/run.js";
import { ensurePython, type PythonOptions } from "../python/python.js";
import type { ModelIo } from "./io.js";

export interface Outcome {
  readonly code: number;
  /** The last lines of its output. */
  readonly said: readonly string[];
}

/**
 * Variables that programs inherit: where things are, the language, and how many threads to use. No others: hone's own
 * environment holds keys under any name.
 */
const INHERITED = [
  "PATH",
  "HOME",
  "USER",
  "LOGNAME",
  "TMPDIR",
  "TEMP",
  "TMP",
  "TZ",
  "LANG",
  "LANGUAGE",
  "LC_ALL",
  "LC_CTYPE",
  "LD_LIBRARY_PATH",
  "DYLD_LIBRARY_PATH",
  "XDG_CACHE_HOME",
  "CUDA_VISIBLE_DEVICES",
  "OMP_NUM_THREADS",
  "OMP_WAIT_POLICY",
  "MKL_NUM_THREADS",
  "OPENBLAS_NUM_THREADS",
];

/**
 * Runs a program of hone's, a module of native/ where it is Python, without network access, and without the keys of this process.
 * It ends, with all that it has started, when the signal is aborted or this process does.
 */
export async function run(
  program: string,
  args: readonly string[],
  { signal = new AbortController().signal }: ModelIo,
  onLine: (line: string) => void = () => undefined,
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  signal.throwIfAborted();
  const said: string[] = [];
  const { code, stderr } = await runToEnd(program, args, {
    inherits: Object.fromEntries(INHERITED.map((name) => [name, process.env[name]])),
    env: {
      PYTHONPATH: join(packageRoot, "native"),
      PYTHONNOUSERSITE: process.env.PYTHONNOUSERSITE,
      PYTHONUNBUFFERED: "1",
      HF_HUB_OFFLINE: "1",
      TOKENIZERS_PARALLELISM: "false",
      ...env,
    },
    signal,
    onLine: (line) => {
      if (line === "") return;
      said.push(line);
      if (said.length > 50) said.shift();
      onLine(line);
    },
  });
  signal.throwIfAborted();
  return { code, said: code === 127 && said.length === 0 ? [stderr] : said };
}

/**
 * Runs a module of native/ to its end, as {@link run}.
 *
 * @param failure what a failure means, in words: its last line follows
 * @returns the last line of its output
 */
export async function runModule(
  python: string,
  [module, ...args]: readonly [string, ...string[]],
  io: ModelIo,
  failure: string,
  env?: Readonly<Record<string, string>>,
): Promise<string> {
  const { code, said } = await run(python, ["-m", module, ...args], io, undefined, env);
  const last = said.at(-1) ?? "no reason was given";
  if (code !== 0) throw new HoneError(`${failure}: ${last}`);
  return last;
}

/** The Python environment with the packages that read and write GGUF. */
export const converterPython = (
  { python, torchIndex }: Pick<PythonOptions, "python" | "torchIndex">,
  io: ModelIo,
): Promise<string> => ensurePython({ onProgress: io.log, anyBuild: true, torchIndex, python, signal: io.signal });

export type FolderOptions = Pick<Config, "home" | "python"> & Partial<Pick<Config, "torchIndex">>;

/**
 * The file or folder `target`, made where it is missing. A lock makes two processes make it once; it gets its name when it is
 * complete and flushed.
 *
 * @param what another process does that is waited for
 * @param write makes it under the name that it is given
 */
export async function writtenOnce(
  target: string,
  what: string,
  io: ModelIo,
  write: (aside: string) => Promise<void>,
): Promise<string> {
  if (existsSync(target)) return target;
  const waiting = () => io.log(`waiting for another process that ${what}`);
  const make = async () => {
    if (existsSync(target)) return;
    removeParts(target);
    // Named after this process: a program of a killed process may still be writing to its own file.
    const aside = `${target}.${process.pid}.part`;
    using _aside = removedAfter(aside);
    await write(aside);
    flush(aside);
    moveDurably(aside, target);
  };
  await withLock(join(dirname(target), ".lock"), waiting, make, io.signal);
  return target;
}

function removeParts(target: string): void {
  const folder = dirname(target);
  const parts = readdirSync(folder).filter((name) => name.startsWith(`${basename(target)}.`) && name.endsWith(".part"));
  for (const name of parts) rmSync(join(folder, name), { recursive: true, force: true });
}
