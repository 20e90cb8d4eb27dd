/**
 * The learner's Python: an environment of hone's own (device/environment.ts says where), made when it is first needed, with
 * the build of PyTorch for this machine's GPU; or a Python that the user names, which is used as it is.
 *
 * uv or pip installs the packages of requirements.lock; what is here is what they do not do: which build, from where, whether
 * it fits on the disk, and that two processes make it once.
 */
import { dirname, join } from "node:path";
import { HoneError } from "../../core/util/errors.js";
import { withLock } from "../../core/util/lock.js";
import { packageRoot } from "../../core/util/paths.js";
import { lastLine, type OnLine, run } from "../../core/util/run.js";
import { buildForMachine, type Device, unfit } from "../../engine/device/build.js";
import { currentDevice } from "../../engine/device/device.js";
import {
  BUILDS,
  type Build,
  buildTitles,
  environmentFolder,
  extrasIn,
  interpreterIn,
  madeEnvironments,
  writeStamp,
} from "../../engine/device/environment.js";
import { packagesIn } from "../../engine/device/runtime.js";
import { withHeartbeat } from "../../engine/heartbeat.js";
import { needDisk } from "../plan/machine.js";
import { pinned } from "./declared.js";
import { checkGiven } from "./given.js";
import type { Extra } from "./install.js";
import { findPython, makeVenv } from "./interpreter.js";
import { type PackedWheels, packedWheels } from "./packed.js";

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

/** Builds that will do, and the one to install where there is none of them. @throws HoneError when a pack has another */
function buildsFor({ cpu = false, anyBuild = false, device = currentDevice() }: PythonOptions, packed?: PackedWheels) {
  const best = cpu ? "cpu" : buildForMachine(device);
  const build = packed?.build ?? best;
  const onGpu = best !== "cpu" && !anyBuild;
  const lack =
    onGpu && packed ? unfit({ torchCuda: build === "cpu" ? null : build.slice("cuda".length) }, device) : undefined;
  if (lack === undefined) return { build, suffice: onGpu ? [build] : BUILDS };
  throw new HoneError(`hone was packed with a PyTorch ${lack}: pack it --for linux-x64-${best}, or use --gpu off`);
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
  const { python, extras = [], needs = [], packed = packedWheels(), onProgress = () => undefined, signal } = options;
  if (python !== undefined) {
    const asked = new Map(needs.map((name) => [name, pinned(extras[0]).get(name) ?? ""]));
    return checkGiven(python, asked, options.cpu || options.anyBuild || false);
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

const hasUv = async (packed: PackedWheels | undefined) => !packed && (await run("uv", ["--version"])).code === 0;

/** What makes an environment here: "uv", or a Python. @throws HoneError that says what to install */
export const environmentMaker = async (packed = packedWheels()): Promise<string> =>
  (await hasUv(packed)) ? "uv" : await findPython(packed?.python);

/** Makes an environment, or adds extras to it. */
async function complete(
  folder: string,
  build: Build,
  packed: PackedWheels | undefined,
  options: PythonOptions & Required<Pick<PythonOptions, "extras" | "onProgress">>,
): Promise<void> {
  const { extras, torchIndex, device = currentDevice(), onProgress, signal } = options;
  const there = extrasIn(folder);
  const missing = extras.filter((extra) => !there?.includes(extra));
  if (there && missing.length === 0) return;
  const interpreter = interpreterIn(folder);
  const uv = await hasUv(packed);
  if (!there) {
    needDisk(dirname(folder), build === "cpu" ? DISK.cpu : DISK.cuda, "PyTorch", "give --python");
    const base = uv ? "uv" : await findPython(packed?.python);
    onProgress(`making a Python environment in ${folder} with ${base}${packed ? `, from ${packed.folder}` : ""}`);
    await makeVenv(base, folder, signal);
  } else if (!uv) {
    // uv makes environments without pip.
    await run(interpreter, ["-m", "ensurepip"], { signal });
  }
  const { installPackages, PIP } = await import("./install.js");
  // Modules are compiled when they are imported; most never are.
  const pip = [interpreter, ...PIP, "install", "--no-compile"] as const;
  await installPackages({
    command: uv ? ["uv", "pip", "install", "--python", interpreter] : pip,
    list: join(folder, "requirements.txt"),
    build,
    torchIndex,
    wheels: packed?.folder,
    onProgress,
    signal,
    extras: there ? missing : ["base", ...missing],
  });
  if (!there) {
    onProgress("loading PyTorch once, to see that it works");
    await checkTorch(interpreter, build, packed ? undefined : device, torchIndex);
  }
  writeStamp(folder, [...(there ?? []), ...missing]);
}

/** @param device that it must compute on: an index that the user names may hold another build */
async function checkTorch(interpreter: string, build: Build, device: Device | undefined, index = "the package index") {
  // PyTorch's general build loads on a CPU without CUDA's libraries after this; a build for the CPU is left as it is.
  const adapt =
    build === "cpu" && process.platform === "linux" ? "from learner import cpu_torch; cpu_torch.main(); " : "";
  const env = { PYTHONPATH: join(packageRoot, "native") };
  const { code, stderr } = await run(interpreter, ["-c", `${adapt}import torch; torch.ones(2).sum()`], { env });
  if (code !== 0)
    throw new HoneError(`PyTorch was installed for ${interpreter} but does not load: ${lastLine(stderr)}`);
  const lack = build !== "cpu" && device ? unfit(packagesIn(dirname(dirname(interpreter))), device) : undefined;
  if (lack === undefined) return;
  throw new HoneError(
    `${index} gave a PyTorch ${lack}; give one with a build for ${buildTitles[build]} (HONE_TORCH_INDEX), or use --gpu off`,
  );
}
