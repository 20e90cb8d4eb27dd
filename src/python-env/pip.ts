/** uv or pip behind one small interface: runs it, passes on its progress, and turns its failures into one line. */
import { writeFileSync } from "node:fs";
import { HoneError, type OnLine, run } from "../util/index.js";
import type { Locked } from "./declared.js";

export interface Installer {
  /** For progress: it may put packages into a folder alone. */
  readonly verb: "installing" | "downloading";
  /** Arguments are common to `pip install` and `uv pip install`. */
  install(args: readonly string[]): Promise<void>;
  /** Installs if possible, without a long wait for a network that is not there. */
  tries(args: readonly string[]): Promise<boolean>;
  /** Installs exactly these packages, from files with their hashes. */
  locked(packages: readonly Locked[]): Promise<void>;
}

export interface Installing {
  /** The environment's interpreter. */
  readonly interpreter: string;
  /** Where the list of packages is written. */
  readonly list: string;
  /** A folder of packages that are taken in place of an index. */
  readonly wheels?: string | undefined;
  readonly onProgress: OnLine;
  readonly signal?: AbortSignal | undefined;
}

/** Progress lines of pip and uv. Only large downloads are shown. */
const WORTH_SAYING = /^Downloading .*\(\d+(\.\d+)? (MB|GB)\)|^(Installing collected|Prepared|Installed) /;
const HURRY = { PIP_RETRIES: "0", PIP_DEFAULT_TIMEOUT: "15", UV_HTTP_RETRIES: "0", UV_HTTP_TIMEOUT: "15" };

function installer(
  command: readonly [program: string, ...args: string[]],
  { interpreter, list, wheels, onProgress, signal }: Installing,
  verb: Installer["verb"] = "installing",
): Installer {
  const [program, ...before] = command;
  const from = wheels === undefined ? [] : ["--no-index", "--find-links", wheels];
  const onLine = (line: string) => {
    if (WORTH_SAYING.test(line)) onProgress(line.length > 100 ? `${line.slice(0, 97)}...` : line);
  };
  const call = async (args: readonly string[], env: NodeJS.ProcessEnv = {}) => {
    const done = await run(program, [...before, ...from, ...args], { env, onLine, signal });
    signal?.throwIfAborted();
    return done;
  };
  const install = async (args: readonly string[]) => {
    const { code, stdout, stderr } = await call(args);
    if (code !== 0) throw new HoneError(explain(`${stderr}\n${stdout}`, interpreter, wheels));
  };
  return {
    verb,
    install,
    tries: async (args) => (await call(args, HURRY)).code === 0,
    locked(packages) {
      writeFileSync(list, `${packages.map(({ text }) => text).join("\n")}\n`);
      return install(["--no-deps", "--require-hashes", "-r", list]);
    },
  };
}

const PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input"] as const;

/** @param pip a Python whose pip installs into the environment, which may have none of its own */
export function pipInstaller(pip: string, choice: Installing): Installer {
  const into = pip === choice.interpreter ? [] : ["--python", choice.interpreter];
  // Modules are compiled when they are imported; most never are.
  return installer([pip, ...PIP, ...into, "install", "--no-compile"], choice);
}

/** Puts packages into a folder in place of installing them. Those that lie there already count as an index's do. */
export function pipDownloader(folder: string, choice: Installing): Installer {
  const into = ["download", "--only-binary", ":all:", "--dest", folder, "--find-links", folder];
  return installer([choice.interpreter, ...PIP, ...into], choice, "downloading");
}

export const uvInstaller = (choice: Installing): Installer =>
  installer(["uv", "pip", "install", "--python", choice.interpreter], choice);

/** What of the outside made pip or uv fail, from their output. */
export function outerCause(output: string): "disk full" | "wrong hash" | "unreachable" | undefined {
  if (/No space left on device|os error 28/.test(output)) return "disk full";
  if (/DO NOT MATCH THE HASHES|hash mismatch/i.test(output)) return "wrong hash";
  const unreachable =
    /NewConnectionError|Failed to establish a new connection|ConnectTimeout|ReadTimeout|ProxyError|name resolution|dns error|error sending request|tcp connect error|Network is unreachable/i;
  return unreachable.test(output) ? "unreachable" : undefined;
}

/** The line of their output that says why. */
export const reasonIn = (output: string) =>
  (
    output.split("\n").find((line) => /^\s*(ERROR|error|×)/.test(line)) ??
    output.trim().split("\n").at(-1) ??
    ""
  ).trim();

/** The cause of a failure in one line, from the output of pip or uv. */
export function explain(output: string, interpreter: string, wheels?: string): string {
  const cause = outerCause(output);
  if (cause === "disk full") {
    return `the disk filled up while Python packages were installed for ${interpreter}; free some space (TMPDIR too) and start again`;
  }
  const lacking = /No matching distribution found for (\S+)/.exec(output)?.[1];
  if (wheels !== undefined && lacking !== undefined) {
    return `${wheels}, with which hone was unpacked, has no ${lacking}; pack hone again, with --learner unsloth where Unsloth is wanted`;
  }
  if (cause === "wrong hash") {
    return `a package for ${interpreter} is not the file that hone was tested with: the package index, or a cache on the way to it, gave another one`;
  }
  if (cause === "unreachable") {
    return "the package index cannot be reached, so the Python side cannot be installed: go online once, set PIP_INDEX_URL or PIP_FIND_LINKS (uv: UV_INDEX_URL, UV_FIND_LINKS) and --torch-index for PyTorch, or give --python a Python that has hone's packages";
  }
  return `installing Python packages for ${interpreter} failed: ${reasonIn(output)}`;
}
