/**
 * The Python that learns: hone's own environment, `.venv` beside its package.json, made when it is first needed and
 * never before; or a Python that the user names, which is used as it is.
 *
 * A stamp, written last, holds the hash of the requirements. While it is right, asking for the environment costs two
 * small reads; when it is not, the environment is made anew from nothing.
 */
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, statfsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HoneError, packageRoot, withLock } from "../util/index.js";
import { type Installer, type OnLine, pipInstaller, run, uvInstaller } from "./installer.js";

/** The versions that the pinned PyTorch has wheels for: oldest, and newest. */
const OLDEST = [3, 10] as const;
const NEWEST = [3, 14] as const;
const range = `${OLDEST.join(".")} to ${NEWEST.join(".")}`;

/** PyTorch's own index of CPU builds: 200 MB where the general index has only the CUDA build for Linux. */
const CPU_INDEX = "https://download.pytorch.org/whl/cpu";

/** Free bytes needed, download and unpacked together, with some air: measured 1.9 and 7.5 GB. */
const DISK = { cpu: 3.5e9, cuda: 12e9 };

const learner = join(packageRoot, "native", "learner");
const files = {
  runtime: join(learner, "requirements.txt"),
  development: join(learner, "requirements-dev.txt"),
  cpuTorch: join(learner, "cpu_torch.py"),
};

export interface PythonOptions {
  /** A Python of the user's, with hone's requirements installed; nothing is installed into it. */
  readonly python?: string;
  /** Also what tests need: pytest, ruff, other implementations to compare with. */
  readonly development?: boolean;
  /** Hears one line per stage of an installation; nothing when there is nothing to do. */
  readonly onProgress?: OnLine;
  /** Where the environment lies; another place in tests. */
  readonly folder?: string;
}

/** Whether {@link ensurePython} has nothing to install. */
export function pythonIsReady(folder = join(packageRoot, ".venv")): boolean {
  return ready(folder, ["runtime"]);
}

/**
 * The interpreter to run the learner with, made ready first where needed. Safe to call in several processes at once.
 * @throws HoneError that says what is missing and how to mend it
 */
export async function ensurePython(options: PythonOptions = {}): Promise<string> {
  if (options.python !== undefined) return checkGiven(options.python);
  const folder = options.folder ?? join(packageRoot, ".venv");
  const onProgress = options.onProgress ?? (() => undefined);
  const interpreter = join(folder, "bin", "python");
  const layers: Layer[] = options.development ? ["runtime", "development"] : ["runtime"];
  if (ready(folder, layers)) return interpreter;

  const waiting = () => onProgress("waiting for another process that installs the Python environment");
  await withLock(`${folder}.lock`, waiting, async () => {
    if (!ready(folder, ["runtime"])) await makeEnvironment(folder, interpreter, onProgress);
    if (!ready(folder, layers)) {
      onProgress("installing the Python packages that tests need");
      const installer = (await uvInstaller(interpreter)) ?? pipInstaller(interpreter);
      await installer.install(["-r", files.development], { onLine: onProgress });
      stamp(folder, layers);
    }
  });
  return interpreter;
}

async function makeEnvironment(folder: string, interpreter: string, onProgress: OnLine): Promise<void> {
  const gpu = await hasNvidiaGpu();
  needDisk(folder, gpu ? DISK.cuda : DISK.cpu);
  const uv = await uvInstaller(interpreter);
  if (uv) {
    onProgress(`making a Python environment in ${folder} with uv`);
    const asked = `>=${OLDEST.join(".")},<${NEWEST[0]}.${NEWEST[1] + 1}`;
    await uv.makeEnvironment(folder, asked);
  } else {
    const base = await findPython();
    onProgress(`making a Python environment in ${folder} with ${base}`);
    await makeVenv(base, folder);
  }
  const installer = uv ?? pipInstaller(interpreter);
  if (!gpu && process.platform === "linux") await installCpuTorch(installer, interpreter, onProgress);
  onProgress(gpu ? "installing PyTorch for CUDA and what the learner needs" : "installing what the learner needs");
  await installer.install(["-r", files.runtime], { onLine: onProgress });

  onProgress("loading PyTorch once, to see that it works");
  const check = await run(interpreter, [
    "-c",
    "import torch, transformers, peft, safetensors, gguf; torch.ones(2).sum()",
  ]);
  if (check.code !== 0) {
    throw new HoneError(`PyTorch was installed in ${folder} but does not load: ${lastLine(check.stderr)}`);
  }
  stamp(folder, ["runtime"]);
}

/**
 * PyTorch without CUDA, from the first place that has it: wheels on this disk that pip is configured to look at,
 * PyTorch's index of CPU builds, the general index. What the last one gives is a CUDA build: see cpu_torch.py.
 */
async function installCpuTorch(installer: Installer, interpreter: string, onProgress: OnLine): Promise<void> {
  const torch = readFileSync(files.runtime, "utf8").match(/^torch==\S+$/m)?.[0];
  if (!torch) throw new Error(`${files.runtime} does not pin torch`);
  onProgress(`installing ${torch} for the CPU`);
  const places = [["--no-index"], ["--index-url", CPU_INDEX]];
  for (const place of places) {
    // Their failure is no news: a place that lacks PyTorch or cannot be reached leaves it to the next.
    if (await installer.tries(["--no-deps", ...place, torch], { onLine: onProgress })) return;
  }
  onProgress("no CPU build could be had; taking the general build (0.5 GB) without the CUDA libraries it names");
  await installer.install(["--no-deps", torch], { onLine: onProgress });
  const adapted = await run(interpreter, [files.cpuTorch]);
  if (adapted.code !== 0) throw new HoneError(`PyTorch could not be set up for the CPU: ${lastLine(adapted.stderr)}`);
}

type Layer = "runtime" | "development";

const stampFile = (folder: string) => join(folder, "hone.json");

function hashes(): Record<Layer, string> {
  const hash = (...paths: string[]) => {
    const digest = createHash("sha256");
    for (const path of paths) digest.update(readFileSync(path));
    return digest.digest("hex");
  };
  return {
    runtime: hash(files.runtime),
    development: hash(files.runtime, files.development),
  };
}

function ready(folder: string, layers: readonly Layer[]): boolean {
  if (!existsSync(stampFile(folder)) || !existsSync(join(folder, "bin", "python"))) return false;
  const written = JSON.parse(readFileSync(stampFile(folder), "utf8")) as Partial<Record<Layer, string>>;
  const wanted = hashes();
  return layers.every((layer) => written[layer] === wanted[layer]);
}

function stamp(folder: string, layers: readonly Layer[]): void {
  const all = hashes();
  const aside = `${stampFile(folder)}.${process.pid}`;
  writeFileSync(aside, `${JSON.stringify(Object.fromEntries(layers.map((layer) => [layer, all[layer]])), null, 2)}\n`);
  renameSync(aside, stampFile(folder));
}

/** The first suitable Python of this machine; the plain name first, because people keep that one in order. */
async function findPython(): Promise<string> {
  const names = ["python3"];
  for (let minor: number = NEWEST[1]; minor >= OLDEST[1]; minor--) names.push(`python3.${minor}`);
  const unsuitable: string[] = [];
  for (const name of names) {
    const version = await versionOf(name);
    if (!version) continue;
    if (suitable(version)) return name;
    unsuitable.push(`${name} is ${version.join(".")}`);
  }
  const found = unsuitable.length > 0 ? unsuitable.join(", ") : "none was found";
  throw new HoneError(
    `learning needs Python ${range}: ${found}; install one (or uv, which brings its own), or give --python`,
  );
}

/** Major, minor; undefined when there is no such program or it is no Python. */
async function versionOf(python: string): Promise<readonly [number, number] | undefined> {
  const asked = await run(python, ["-c", "import sys; print(*sys.version_info[:2])"]);
  const match = asked.code === 0 ? asked.stdout.match(/^(\d+) (\d+)\s*$/) : null;
  return match ? [Number(match[1]), Number(match[2])] : undefined;
}

function suitable([major, minor]: readonly [number, number]): boolean {
  return major === OLDEST[0] && minor >= OLDEST[1] && minor <= NEWEST[1];
}

async function makeVenv(base: string, folder: string): Promise<void> {
  const made = await run(base, ["-m", "venv", "--clear", folder]);
  if (made.code === 0) return;
  const output = `${made.stdout}\n${made.stderr}`;
  if (/ensurepip is not available|No module named '?(venv|ensurepip)/.test(output)) {
    throw new HoneError(
      `${base} cannot make environments: install its venv module (Debian, Ubuntu: apt install python3-venv)`,
    );
  }
  throw new HoneError(`${base} could not make an environment in ${folder}: ${lastLine(output)}`);
}

/** Versions are not compared: whoever names a Python may have reasons for other ones. */
async function checkGiven(python: string): Promise<string> {
  const version = await versionOf(python);
  if (!version) throw new HoneError(`--python ${python}: there is no Python that can be run`);
  if (version[0] !== OLDEST[0] || version[1] < OLDEST[1]) {
    throw new HoneError(
      `--python ${python} is Python ${version.join(".")}; learning needs ${OLDEST.join(".")} or newer`,
    );
  }
  const names = readFileSync(files.runtime, "utf8").match(/^[\w-]+/gm) ?? [];
  const script = "import sys, importlib.util as u; print(*[n for n in sys.argv[1:] if u.find_spec(n) is None])";
  const missing = (await run(python, ["-c", script, ...names])).stdout.trim();
  if (missing !== "") {
    throw new HoneError(
      `--python ${python} lacks ${missing.split(" ").join(", ")}: run ${python} -m pip install -r ${files.runtime}, or leave --python out`,
    );
  }
  return python;
}

async function hasNvidiaGpu(): Promise<boolean> {
  const listed = await run("nvidia-smi", ["-L"]);
  return listed.code === 0 && listed.stdout.includes("GPU ");
}

function needDisk(folder: string, bytes: number): void {
  const parent = join(folder, "..");
  mkdirSync(parent, { recursive: true });
  const disk = statfsSync(parent);
  const free = disk.bavail * disk.bsize;
  if (free >= bytes) return;
  const gigabytes = (value: number) => (value / 1e9).toFixed(1);
  throw new HoneError(
    `PyTorch needs ${gigabytes(bytes)} GB of free disk in ${parent}, which has ${gigabytes(free)} GB; free some, or give --python`,
  );
}

const lastLine = (text: string) => text.trim().split("\n").at(-1) ?? "";
