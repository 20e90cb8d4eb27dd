/** Runs external programs to their end. */
import type { Readable } from "node:stream";
import { spawnTied } from "../../core/util/tied.js";
import type { ModelIo } from "./io.js";

export interface Outcome {
  readonly code: number | null;
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
  "PYTHONNOUSERSITE",
  "CUDA_VISIBLE_DEVICES",
  "OMP_NUM_THREADS",
  "OMP_WAIT_POLICY",
  "MKL_NUM_THREADS",
  "OPENBLAS_NUM_THREADS",
];

/** Not those of the working folder, which would come first: it may be one that was downloaded. */
const OWN_MODULES = { PYTHONSAFEPATH: "1" };

/**
 * Runs a program without network access, and without the keys of this one. It ends, with all that it has started, when the
 * signal is aborted or this process does.
 */
export async function run(
  program: string,
  args: readonly string[],
  { signal }: ModelIo,
  onLine: (line: string) => void = () => undefined,
  env: Readonly<Record<string, string>> = {},
): Promise<Outcome> {
  signal?.throwIfAborted();
  const inherited = Object.fromEntries(INHERITED.map((name) => [name, process.env[name]]));
  const said: string[] = [];
  return await new Promise<Outcome>((settle, reject) => {
    const { process: child, kill } = spawnTied(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      ownGroup: true,
      env: {
        ...inherited,
        ...OWN_MODULES,
        HF_HUB_OFFLINE: "1",
        PYTHONUNBUFFERED: "1",
        TOKENIZERS_PARALLELISM: "false",
        ...env,
      },
    });
    signal?.addEventListener("abort", kill, { once: true });
    for (const stream of [child.stdout as Readable, child.stderr as Readable]) {
      let rest = "";
      stream.setEncoding("utf8").on("data", (chunk: string) => {
        // A progress bar ends its lines with a carriage return.
        const lines = (rest + chunk).split(/[\r\n]+/);
        rest = lines.pop() ?? "";
        for (const line of lines.filter((one) => one.trim() !== "")) {
          said.push(line);
          if (said.length > 50) said.shift();
          onLine(line);
        }
      });
    }
    child.once("error", (error) => settle({ code: 127, said: [error.message] }));
    child.once("close", (code) => {
      signal?.removeEventListener("abort", kill);
      if (signal?.aborted) reject(signal.reason);
      else settle({ code, said });
    });
  });
}
