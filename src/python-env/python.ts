/**
 * The learner's Python: an environment of hone's own (device/environment.ts says where), made when it is first needed, with
 * the build of PyTorch for this machine's GPU; or a Python that the user names, which is used as it is.
 *
 * uv or pip installs the packages of requirements.lock; what is here is what they do not do: which build, from where, whether
 * it fits on the disk, and that two processes make it once.
 */
import { mkdirSync, statfsSync } from "node:fs";
import { join } from "node:path";
import {
  BUILDS,
  type Build,
  buildForMachine,
  buildTitles,
  currentDevice,
  type Device,
  environmentFolder,
  extrasIn,
  interpreterIn,
  madeEnvironments,
  packagesIn,
  unfit,
  writeStamp,
} from "../device/index.js";
import { HoneError, lastLine, type OnLine, run, withHeartbeat, withLock } from "../util/index.js";
import { pythonVersions } from "./declared.js";
import { checkGiven } from "./given.js";
import { findPython, makeVenv, pipReachesOut } from "./interpreter.js";
import { type Extra, installPackages, withoutCuda } from "./packages.js";
import { type PackedWheels, packedBuild, packedWheels } from "./packed.js";
import { type Installer, type Installing, pipInstaller, uvInstaller } from "./pip.js";

/** Free bytes needed for download and unpacking, with a margin: measured 1.9 and 7.5 GB. */
const DISK = { cpu: 3.5e9, cuda: 12e9 };

export interface PythonOptions {
  /** A Python of the user's, with hone's packages installed; nothing is installed into it. */
  readonly python?: string | undefined;
  /** Once installed they stay in the environment. */
  readonly extras?: readonly Extra[];
  /** Packages of the first extra that a Python of the user's must have. */
  readonly needs?: readonly string[];
  /** The learner will compute on the CPU whatever GPU there is: an environment for any device suffices. */
  readonly cpu?: boolean;
  /** Nothing is trained now: an existing environment for any device suffices; a new one is made for this machine's. */
  readonly anyBuild?: boolean;
  /** The GPU to make it for; by default the one that this process has chosen. */
  readonly device?: Device;
  /** Package index for PyTorch in place of hone's choice, when the environment is made. */
  readonly torchIndex?: string | undefined;
  /** Packages that came with hone, as files; replaced in tests. */
  readonly packed?: PackedWheels | undefined;
  /** Gets one line per stage of an installation; not called when there is nothing to do. */
  readonly onProgress?: OnLine;
  /** Ends an installation: what is left of it is no environment yet. */
  readonly signal?: AbortSignal | undefined;
}

/** Builds that will do, and the one to install where there is none of them. */
function buildsFor({ cpu = false, anyBuild = false, device = currentDevice() }: PythonOptions, packed?: PackedWheels) {
  const wanted = cpu || anyBuild ? "cpu" : buildForMachine(device);
  const build = packed ? packedBuild(packed, wanted, device) : cpu ? "cpu" : buildForMachine(device);
  return { build, suffice: wanted === "cpu" ? BUILDS : [build] };
}

/** Whether {@link ensurePython} has nothing to install. */
export const pythonIsReady = (options: Pick<PythonOptions, "cpu" | "extras"> = {}): boolean =>
  madeEnvironments(buildsFor(options, packedWheels()).suffice, options.extras).length > 0;

/**
 * The interpreter to run the learner with, installed first where needed. Safe to call in several processes at once.
 *
 * @throws HoneError that says what is missing and how to mend it
 * @throws the signal's reason when it is aborted
 */
export async function ensurePython(options: PythonOptions = {}): Promise<string> {
  const { extras = [], needs, packed = packedWheels(), onProgress = () => undefined, signal } = options;
  if (options.python !== undefined) {
    const [extra] = extras;
    return checkGiven(
      options.python,
      extra && needs && { extra, names: needs },
      options.cpu || options.anyBuild || false,
    );
  }
  const { build, suffice } = buildsFor(options, packed);
  const [made] = madeEnvironments(suffice, extras);
  if (made !== undefined) return interpreterIn(made);

  const into = suffice.find((one) => extrasIn(environmentFolder(one))) ?? build;
  const folder = environmentFolder(into);
  const waiting = () => onProgress("waiting for another process that installs the Python environment");
  const make = (onProgress: OnLine) => complete(folder, into, packed, { ...options, extras, onProgress });
  await withLock(`${folder}.lock`, waiting, () => withHeartbeat(onProgress, make), signal);
  return interpreterIn(folder);
}

/** Makes an environment, or adds extras to it. */
async function complete(
  folder: string,
  build: Build,
  packed: PackedWheels | undefined,
  {
    extras,
    torchIndex,
    device = currentDevice(),
    onProgress,
    signal,
  }: PythonOptions & Required<Pick<PythonOptions, "extras" | "onProgress">>,
): Promise<void> {
  const there = extrasIn(folder);
  const missing = extras.filter((extra) => !there?.includes(extra));
  if (there && missing.length === 0) return;
  const interpreter = interpreterIn(folder);
  const choice = { interpreter, list: join(folder, "requirements.txt"), wheels: packed?.folder, onProgress, signal };
  const installer = there ? await installerFor(choice, packed) : await makeEnvironment(folder, build, choice, packed);
  await installPackages(installer, {
    ...{ build, torchIndex, packed: packed !== undefined, onProgress },
    extras: there ? missing : ["base", ...missing],
    withoutCuda: () => withoutCuda(interpreter, "cpu_torch"),
  });
  if (!there) {
    onProgress("loading PyTorch once, to see that it works");
    await checkLoads(folder);
    if (build !== "cpu" && !packed) checkBuild(folder, build, device, torchIndex);
  }
  writeStamp(folder, [...(there ?? []), ...missing]);
}

const uvIsThere = async () => (await run("uv", ["--version"])).code === 0;

/** What installs into an environment that there is: from the packages that came with hone alone, where some did. */
async function installerFor(choice: Installing, packed: PackedWheels | undefined): Promise<Installer> {
  if (!packed && (await uvIsThere())) return uvInstaller(choice);
  const own = (await run(choice.interpreter, ["-m", "pip", "--version"])).code === 0;
  return pipInstaller(own ? choice.interpreter : await findPython(packed?.python), choice);
}

/** An empty environment, and what installs into it. */
async function makeEnvironment(
  folder: string,
  build: Build,
  choice: Installing,
  packed: PackedWheels | undefined,
): Promise<Installer> {
  const { onProgress, signal } = choice;
  needDisk(folder, build === "cpu" ? DISK.cpu : DISK.cuda);
  if (!packed && (await uvIsThere())) {
    onProgress(`making a Python environment in ${folder} with uv`);
    const made = await run("uv", ["venv", "--clear", "--python", pythonVersions(), folder], { signal });
    if (made.code !== 0) throw new HoneError(`uv could not make an environment in ${folder}: ${lastLine(made.stderr)}`);
    return uvInstaller(choice);
  }
  const base = await findPython(packed?.python);
  onProgress(
    `making a Python environment in ${folder} with ${base}${packed ? `, from the packages in ${packed.folder}` : ""}`,
  );
  const reaches = await pipReachesOut(base);
  await makeVenv(base, folder, !reaches);
  return pipInstaller(reaches ? base : choice.interpreter, choice);
}

async function checkLoads(folder: string): Promise<void> {
  const { code, stderr } = await run(interpreterIn(folder), ["-c", "import torch; torch.ones(2).sum()"]);
  if (code === 0) return;
  throw new HoneError(`PyTorch was installed in ${folder} but does not load: ${lastLine(stderr)}`);
}

/** An index or a folder of packages that the user names may hold another build. */
function checkBuild(folder: string, build: Build, device: Device, index = "the package index"): void {
  const lack = unfit(packagesIn(folder), device);
  if (lack === undefined) return;
  throw new HoneError(
    `${index} gave a PyTorch ${lack}; give one with a build for ${buildTitles[build]} (--torch-index), or use --gpu off`,
  );
}

/** @throws HoneError when the disk of a folder has less room */
export function needDisk(folder: string, bytes: number): void {
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
