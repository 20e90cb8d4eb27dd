/**
 * The learner's Python: hone's own environment (device/environment.ts says where), made when it is first needed; or a
 * Python that the user names, which is used as it is.
 *
 * Its PyTorch is the build for this machine's GPU. When a GPU was added, its driver needs another build, or the
 * requirements have changed (stamp.ts records them), the environment is made again from nothing.
 */
import { mkdirSync, readFileSync, statfsSync } from "node:fs";
import { join } from "node:path";
import {
  currentDevice,
  type DeviceReport,
  describePackages,
  environmentFolder,
  type PythonPackages,
  packagesIn,
} from "../device/index.js";
import { HoneError, withLock } from "../util/index.js";
import { buildForMachine, checkBuild, checkGivenBuild, deviceOf, whyAnew } from "./build.js";
import { withHeartbeat } from "./heartbeat.js";
import { type Installer, type OnLine, pipInstaller, run, uvInstaller } from "./installer.js";
import { findPython, lastLine, makeVenv, NEWEST, OLDEST, versionOf } from "./interpreter.js";
import { type PackedWheels, packedBuild, packedWheels } from "./packed.js";
import { type Build, buildTitles, files, type Layer, readStamp, requirementHashes, writeStamp } from "./stamp.js";
import { installTorch } from "./torch.js";
import { installUnsloth } from "./unsloth.js";

/** Free bytes needed for download and unpacking, with a margin: measured 1.9 and 7.5 GB. */
const DISK = { cpu: 3.5e9, cuda: 12e9 };

export interface PythonOptions {
  /** A Python of the user's, with hone's requirements installed; nothing is installed into it. */
  readonly python?: string;
  /** Adds packages for tests: pytest, ruff, other implementations to compare with. */
  readonly development?: boolean;
  /** Adds Unsloth, an extra. Once installed it stays in the environment. */
  readonly unsloth?: boolean;
  /** Gets one line per stage of an installation; not called when there is nothing to do. */
  readonly onProgress?: OnLine;
  /** Folder of the environment; replaced in tests. */
  readonly folder?: string;
  /** The learner will compute on the CPU whatever GPU there is: an environment for any device suffices. */
  readonly cpu?: boolean;
  /** Nothing is trained now: an existing environment for any device suffices; a new one is made for this machine's. */
  readonly anyBuild?: boolean;
  /** The GPU to make it for; by default the one that this process has chosen. */
  readonly device?: Pick<DeviceReport, "card" | "nvidia">;
  /** Package index for PyTorch in place of hone's choice, when the environment is made. */
  readonly torchIndex?: string | undefined;
  /** Packages that came with hone, as files; replaced in tests. */
  readonly packed?: PackedWheels | undefined;
}

/** Whether {@link ensurePython} has nothing to install. */
export function pythonIsReady({
  cpu = false,
  folder = environmentFolder(),
}: Pick<PythonOptions, "cpu" | "folder"> = {}): boolean {
  const wanted = cpu ? "cpu" : buildForMachine(currentDevice());
  return ready(folder, ["runtime"], wanted === "cpu" ? wanted : (packedWheels()?.build ?? wanted));
}

/** What installs into an environment: from the packages that came with hone alone, where some did. */
export const installerFor = async (interpreter: string, packed = packedWheels()): Promise<Installer> =>
  packed ? pipInstaller(interpreter, packed.folder) : ((await uvInstaller(interpreter)) ?? pipInstaller(interpreter));

/**
 * The interpreter to run the learner with, installed first where needed. Safe to call in several processes at once.
 * @throws HoneError that says what is missing and how to mend it
 */
export async function ensurePython(options: PythonOptions = {}): Promise<string> {
  const { cpu = false, anyBuild = false, device = currentDevice(), packed = packedWheels() } = options;
  if (options.python !== undefined) return checkGiven(options.python, cpu || anyBuild);
  const folder = options.folder ?? environmentFolder();
  const onProgress = options.onProgress ?? (() => undefined);
  const interpreter = join(folder, "bin", "python");
  const wanted = cpu || anyBuild ? "cpu" : buildForMachine(device);
  const build = packed ? packedBuild(packed, wanted, device) : cpu ? "cpu" : buildForMachine(device);
  // A build for a GPU computes on the CPU as well, so any build suffices where the CPU's does.
  const least = wanted === "cpu" ? "cpu" : build;
  const layers: Layer[] = ["runtime"];
  if (options.development) layers.push("development");
  if (options.unsloth) layers.push("unsloth");
  if (ready(folder, layers, least)) return interpreter;

  const waiting = () => onProgress("waiting for another process that installs the Python environment");
  const install = async (onProgress: OnLine) => {
    if (!ready(folder, ["runtime"], least)) {
      if (readStamp(folder)?.unsloth !== undefined && !layers.includes("unsloth")) layers.push("unsloth");
      if (packed) await makeFromPacked(packed, folder, onProgress);
      else await makeEnvironment(folder, build, device, options.torchIndex, onProgress);
    }
    for (const layer of layers) {
      if (ready(folder, [layer], "cpu")) continue;
      const installer = await installerFor(interpreter, packed);
      const made = deviceOf(folder, readStamp(folder));
      if (layer === "unsloth") {
        const choice = { folder, build: made, interpreter, onProgress };
        await installUnsloth(installer, { ...choice, torchIndex: options.torchIndex, packed: packed !== undefined });
      } else {
        onProgress("installing the Python packages that tests need");
        await installer.install(["-r", files.development], { onLine: onProgress });
      }
      writeStamp(folder, [...layersIn(folder), layer], made);
    }
  };
  await withLock(`${folder}.lock`, waiting, () => withHeartbeat(onProgress, install));
  return interpreter;
}

/** The extras that are installed and match the requirements. */
const layersIn = (folder: string) =>
  (["runtime", "development", "unsloth"] as const).filter((layer) => ready(folder, [layer], "cpu"));

function ready(folder: string, layers: readonly Layer[], build: Build): boolean {
  const stamp = readStamp(folder);
  if (!stamp) return false;
  const wanted = requirementHashes();
  if (layers.some((layer) => stamp[layer] !== wanted[layer])) return false;
  // A build for a GPU computes on the CPU as well.
  return build === "cpu" || deviceOf(folder, stamp) === build;
}

async function makeEnvironment(
  folder: string,
  build: Build,
  device: Pick<DeviceReport, "card" | "nvidia">,
  torchIndex: string | undefined,
  onProgress: OnLine,
): Promise<void> {
  const interpreter = join(folder, "bin", "python");
  const why = whyAnew(folder, build, device);
  if (why !== undefined) onProgress(why);
  needDisk(folder, build === "cpu" ? DISK.cpu : DISK.cuda);
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
  await installTorch(installer, { build, interpreter, index: torchIndex, onProgress });
  onProgress(
    build === "cpu"
      ? "installing what the learner needs"
      : `installing what PyTorch for ${buildTitles[build]} and the learner need`,
  );
  await installer.install(["-r", files.runtime], { onLine: onProgress });
  await checkLoads(interpreter, folder, onProgress);
  checkBuild(packagesIn(folder), build, device, torchIndex);
  writeStamp(folder, ["runtime"], build);
}

/** As {@link makeEnvironment}, without a network: PyTorch's build is the one that was packed. */
async function makeFromPacked(
  { folder: wheels, build, python }: PackedWheels,
  folder: string,
  onProgress: OnLine,
): Promise<void> {
  const interpreter = join(folder, "bin", "python");
  needDisk(folder, build === "cpu" ? DISK.cpu : DISK.cuda);
  const base = await findPython(python);
  onProgress(`making a Python environment in ${folder} with ${base}, from the packages in ${wheels}`);
  await makeVenv(base, folder);
  await pipInstaller(interpreter, wheels).install(["-r", files.runtime], { onLine: onProgress });
  await checkLoads(interpreter, folder, onProgress);
  writeStamp(folder, ["runtime"], build);
}

async function checkLoads(interpreter: string, folder: string, onProgress: OnLine): Promise<void> {
  onProgress("loading PyTorch once, to see that it works");
  const check = await run(interpreter, [
    "-c",
    "import torch, transformers, peft, safetensors, gguf; torch.ones(2).sum()",
  ]);
  if (check.code !== 0) {
    throw new HoneError(`PyTorch was installed in ${folder} but does not load: ${lastLine(check.stderr)}`);
  }
}

/** Versions are not compared: a user who names a Python may have reasons for other versions. */
async function checkGiven(python: string, cpu: boolean): Promise<string> {
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
  if (!cpu && currentDevice().card) checkGivenBuild(python, await packagesOfPython(python), currentDevice());
  return python;
}

/** Package folder of a Python of the user's; undefined where it cannot be determined. */
export async function packagesOfPython(python: string): Promise<PythonPackages> {
  const asked = await run(python, ["-c", "import json, sys; print(json.dumps([sys.prefix, *filter(None, sys.path)]))"]);
  try {
    const [prefix, ...sites] = JSON.parse(asked.stdout) as string[];
    return describePackages(sites, prefix);
  } catch {
    // Not Python, or one that prints something else first: checkGiven reports the cause.
    return describePackages([], undefined);
  }
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
