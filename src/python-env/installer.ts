/** pip and uv behind one small interface: runs them, passes on their progress, and turns their failures into one line. */
import type { Readable } from "node:stream";
import { HoneError, spawnTied } from "../util/index.js";

export type OnLine = (line: string) => void;

interface Finished {
  /** Exit code; 127 when the program does not exist, 128 when a signal ended it. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end, at the latest this process's. Never throws: a program that does not exist is an exit code too. */
export function run(
  program: string,
  args: readonly string[],
  options: { env?: object; onLine?: OnLine } = {},
): Promise<Finished> {
  // PYTHONPATH and the like of the user's shell must not reach this environment.
  const { PYTHONHOME: _home, PYTHONPATH: _path, ...inherited } = process.env;
  return new Promise((resolve) => {
    const { process: child } = spawnTied(program, args, {
      stdio: ["ignore", "pipe", "pipe"],
      // Ctrl-C ends pip and uv as well.
      ownGroup: false,
      // Nor may modules of the working folder.
      env: { ...inherited, PYTHONNOUSERSITE: "1", PYTHONSAFEPATH: "1", ...options.env },
    });
    const text = { stdout: "", stderr: "" };
    for (const stream of ["stdout", "stderr"] as const) {
      let rest = "";
      (child[stream] as Readable).setEncoding("utf8").on("data", (chunk: string) => {
        text[stream] += chunk;
        const lines = (rest + chunk).split("\n");
        rest = lines.pop() ?? "";
        for (const line of lines) options.onLine?.(line.trim());
      });
    }
    child.once("error", (error) => resolve({ code: 127, stdout: text.stdout, stderr: error.message }));
    child.once("close", (code) => resolve({ code: code ?? 128, ...text }));
  });
}

export interface InstallOptions {
  readonly onLine?: OnLine;
}

export interface Installer {
  /** For progress: it may put packages into a folder alone. */
  readonly verb: "installing" | "downloading";
  /** Installs; throws HoneError. The arguments are common to `pip install` and `uv pip install`. */
  install(args: readonly string[], options?: InstallOptions): Promise<void>;
  /** Installs if possible, without a long wait for a network that is not there. */
  tries(args: readonly string[], options?: InstallOptions): Promise<boolean>;
}

export interface UvInstaller extends Installer {
  makeEnvironment(folder: string, versions: string): Promise<void>;
}

/** Progress lines of pip. Only large downloads are shown. */
const worthSaying = (line: string) =>
  /^Downloading .*\(\d+(\.\d+)? (MB|GB)\)|^(Installing collected|Prepared|Installed) /.test(line);

const short = (line: string) => (line.length > 100 ? `${line.slice(0, 97)}...` : line);

function installer(
  program: string,
  before: readonly string[],
  interpreter: string,
  about: { readonly verb?: Installer["verb"]; readonly wheels?: string | undefined } = {},
): Installer {
  const { verb = "installing", wheels } = about;
  const call = (args: readonly string[], { onLine }: InstallOptions, env: object) =>
    run(program, [...before, ...args], {
      env,
      onLine: (line) => {
        if (worthSaying(line)) onLine?.(short(line));
      },
    });
  return {
    verb,
    async install(args, options = {}) {
      const done = await call(args, options, {});
      if (done.code !== 0) throw new HoneError(explain(`${done.stderr}\n${done.stdout}`, interpreter, wheels));
    },
    async tries(args, options = {}) {
      const hurry = { PIP_RETRIES: "0", PIP_DEFAULT_TIMEOUT: "15", UV_HTTP_RETRIES: "0", UV_HTTP_TIMEOUT: "15" };
      return (await call(args, options, hurry)).code === 0;
    },
  };
}

const PIP = ["-m", "pip", "--disable-pip-version-check", "--no-input"];

/** @param wheels folder of packages that are taken in place of an index */
export function pipInstaller(interpreter: string, wheels?: string): Installer {
  const from = wheels === undefined ? [] : ["--no-index", "--find-links", wheels];
  return installer(interpreter, [...PIP, "install", ...from], interpreter, { wheels });
}

/** Puts packages into a folder in place of installing them. Those that lie there already count as an index's do. */
export function pipDownloader(interpreter: string, folder: string): Installer {
  const into = ["download", "--only-binary", ":all:", "--dest", folder, "--find-links", folder];
  return installer(interpreter, [...PIP, ...into], interpreter, { verb: "downloading" });
}

/** Undefined when uv is not installed. */
export async function uvInstaller(interpreter: string): Promise<UvInstaller | undefined> {
  if ((await run("uv", ["--version"])).code !== 0) return undefined;
  return {
    ...installer("uv", ["pip", "install", "--python", interpreter], interpreter),
    async makeEnvironment(folder, versions) {
      const made = await run("uv", ["venv", "--clear", "--python", versions, folder]);
      if (made.code !== 0) throw new HoneError(explain(made.stderr, interpreter));
    },
  };
}

/** The cause of a failure in one line, from the output of pip or uv. */
export function explain(output: string, interpreter: string, wheels?: string): string {
  if (/No space left on device|os error 28/.test(output)) {
    return `the disk filled up while Python packages were installed for ${interpreter}; free some space (TMPDIR too) and start again`;
  }
  const lacking = /No matching distribution found for (\S+)/.exec(output)?.[1];
  if (wheels !== undefined && lacking !== undefined) {
    return `${wheels}, with which hone was unpacked, has no ${lacking}; pack hone again, with --learner unsloth where Unsloth is wanted`;
  }
  const unreachable =
    /NewConnectionError|Failed to establish a new connection|ConnectTimeout|ReadTimeout|ProxyError|name resolution|dns error|error sending request|tcp connect error|Network is unreachable/i;
  if (unreachable.test(output)) {
    return "the package index cannot be reached, so the Python side cannot be installed: go online once, set PIP_INDEX_URL or PIP_FIND_LINKS (uv: UV_INDEX_URL, UV_FIND_LINKS) and --torch-index for PyTorch, or give --python a Python that has native/learner/requirements.txt";
  }
  const said =
    output.split("\n").find((line) => /^\s*(ERROR|error|×)/.test(line)) ?? output.trim().split("\n").at(-1) ?? "";
  return `installing Python packages for ${interpreter} failed: ${said.trim()}`;
}
