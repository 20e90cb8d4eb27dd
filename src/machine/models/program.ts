/** Runs the programs that read and write models. */
import { mkdirSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Config } from "../../core/config/config.js";
import { moveDurably } from "../../core/util/files.js";
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

/** The Python environment with the packages that read and write GGUF. */
export const converterPython = (
  { python, torchIndex }: Pick<PythonOptions, "python" | "torchIndex">,
  io: ModelIo,
): Promise<string> => ensurePython({ onProgress: io.log, anyBuild: true, torchIndex, python, signal: io.signal });

export type FolderOptions = Pick<Config, "home" | "python"> & Partial<Pick<Config, "torchIndex">>;

/**
 * The folder `target`, made where it is missing, once by two processes.
 *
 * @param what another process does that is waited for
 * @param write makes the folder that it is given
 */
export async function folderOnce(
  target: string,
  what: string,
  io: ModelIo,
  write: (aside: string) => Promise<void>,
): Promise<string> {
  const isThere = () => statSync(target, { throwIfNoEntry: false })?.isDirectory() === true;
  if (isThere()) return target;
  const make = async () => {
    if (isThere()) return;
    const aside = `${target}.${process.pid}.part`;
    rmSync(aside, { recursive: true, force: true });
    try {
      await write(aside);
      moveDurably(aside, target);
    } finally {
      rmSync(aside, { recursive: true, force: true });
    }
  };
  const waiting = () => io.log(`waiting for another process that ${what}`);
  mkdirSync(dirname(target), { recursive: true });
  await withLock(join(dirname(target), ".lock"), waiting, make, io.signal);
  return target;
}
