/** Collects the learner's packages as files, for a machine of this kind that has no network. */
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { removedAfter } from "../../core/util/files.js";
import type { OnLine } from "../../core/util/run.js";
import type { Build } from "../../engine/device/environment.js";
import { installPackages, PIP } from "../python/install.js";
import { findPython, givenVersion, makeVenv, type PythonVersion } from "../python/interpreter.js";
import { WHEELS_LIST } from "../python/packed.js";

export interface WheelsChoice {
  /** Empty. */
  readonly folder: string;
  readonly build: Build;
  /** A Python of the version that the other machine has; undefined: the one that hone would take here. */
  readonly python: string | undefined;
  readonly torchIndex: string | undefined;
  readonly unsloth: boolean;
  readonly onProgress: OnLine;
  readonly signal?: AbortSignal | undefined;
}

/** @throws UsageError for a Python that the learner does not take; HoneError when there is none */
export async function pythonForWheels(given: string | undefined): Promise<{ base: string; version: PythonVersion }> {
  const base = given ?? (await findPython());
  return { base, version: await givenVersion(base) };
}

/** @throws HoneError when a package cannot be had */
export async function collectWheels(choice: WheelsChoice): Promise<void> {
  const { folder, build, torchIndex, unsloth, onProgress, signal } = choice;
  const { base, version } = await pythonForWheels(choice.python);
  // Not every Python has a pip of its own, and markers of requirements are read by the Python that runs it.
  const tools = join(folder, ".tools");
  using _tools = removedAfter(tools);
  await makeVenv(base, tools);
  // Files that lie there already count as an index's do.
  const download = [...PIP, "download", "--only-binary", ":all:", "--dest", folder, "--find-links", folder];
  await installPackages({
    command: [join(tools, "bin", "python"), ...download],
    list: join(tools, "requirements.txt"),
    build,
    torchIndex,
    onProgress,
    signal,
    extras: unsloth ? ["base", "unsloth"] : ["base"],
  });
  writeFileSync(join(folder, WHEELS_LIST), `${JSON.stringify({ build, python: version }, null, 2)}\n`);
}
