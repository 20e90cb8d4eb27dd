/** Collects the learner's packages as files, for a machine of this kind that has no network. */
import { rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { HoneError, UsageError } from "../util/index.js";
import { type OnLine, pipDownloader, run } from "./installer.js";
import {
  findPython,
  lastLine,
  makeVenv,
  NEWEST,
  OLDEST,
  type PythonVersion,
  suitable,
  versionOf,
} from "./interpreter.js";
import { WHEELS_LIST } from "./packed.js";
import { type Build, files } from "./stamp.js";
import { installTorch } from "./torch.js";
import { unslothPackages } from "./unsloth.js";

export interface WheelsChoice {
  /** Empty. */
  readonly folder: string;
  readonly build: Build;
  /** A Python of the version that the other machine has; undefined: the one that hone would take here. */
  readonly python: string | undefined;
  readonly torchIndex: string | undefined;
  readonly unsloth: boolean;
  readonly onProgress: OnLine;
}

/** @throws UsageError for a Python that the learner does not take; HoneError when there is none */
export async function pythonForWheels(given: string | undefined): Promise<{ base: string; version: PythonVersion }> {
  const base = given ?? (await findPython());
  const version = await versionOf(base);
  if (!version) throw new UsageError(`--python ${base}: there is no Python that can be run`);
  if (!suitable(version)) {
    throw new UsageError(
      `--python ${base} is Python ${version.join(".")}; learning needs ${OLDEST.join(".")} to ${NEWEST.join(".")}`,
    );
  }
  return { base, version };
}

/** @throws HoneError when a package cannot be had */
export async function collectWheels(choice: WheelsChoice): Promise<void> {
  const { folder, build, torchIndex: index, unsloth, onProgress } = choice;
  const { base, version } = await pythonForWheels(choice.python);
  // Not every Python has a pip of its own, and markers of requirements are read by the Python that runs it.
  const tools = join(folder, ".tools");
  await makeVenv(base, tools);
  try {
    const interpreter = join(tools, "bin", "python");
    const pip = pipDownloader(interpreter, folder);
    const withoutCuda = async () => {
      const adapted = await run(interpreter, [files.cpuWheel, folder]);
      if (adapted.code !== 0) {
        throw new HoneError(`PyTorch's wheel could not be set up for the CPU: ${lastLine(adapted.stderr)}`);
      }
    };
    await installTorch(pip, { build, interpreter, index, onProgress, withoutCuda });
    onProgress("downloading the Python packages that the learner needs");
    await pip.install(["-r", files.runtime], { onLine: onProgress });
    if (unsloth) await unslothPackages(pip, { build, torchIndex: index, packed: false, onProgress });
  } finally {
    rmSync(tools, { recursive: true, force: true });
  }
  writeFileSync(join(folder, WHEELS_LIST), `${JSON.stringify({ build, python: version }, null, 2)}\n`);
}
