/**
 * The learner's packages as files beside hone: a copy that was unpacked on a machine without a network has them, and its
 * environment is made from nothing else.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { BUILDS, type Build, buildTitles, cudaFor, type Device, describe, WHEELS_FOLDER } from "../device/index.js";
import { HoneError, packageRoot } from "../util/index.js";
import type { PythonVersion } from "./interpreter.js";

export const WHEELS_LIST = "hone-wheels.json";

const listSchema = z.object({
  build: z.enum(BUILDS),
  python: z.tuple([z.number(), z.number()]),
});

export interface PackedWheels {
  readonly folder: string;
  /** Of PyTorch. */
  readonly build: Build;
  /** The packages are for this version alone. */
  readonly python: PythonVersion;
}

export function packedWheels(root = packageRoot): PackedWheels | undefined {
  const folder = join(root, WHEELS_FOLDER);
  const list = join(folder, WHEELS_LIST);
  if (!existsSync(list)) return undefined;
  return { folder, ...listSchema.parse(JSON.parse(readFileSync(list, "utf8"))) };
}

/**
 * The build to install: the packed one, which must serve this machine's card where it is to compute there.
 *
 * @param wanted the build for this machine, "cpu" where the learner computes on the CPU
 * @throws HoneError when it does not
 */
export function packedBuild({ build }: PackedWheels, wanted: Build, { card, nvidia }: Device): Build {
  if (wanted === "cpu" || !card || wanted === build) return build;
  const fits = cudaFor(card, nvidia.driver).majors.map((major): Build => `cuda${major}`);
  if (fits.includes(build)) return build;
  throw new HoneError(
    `hone was packed for ${buildTitles[build]}, but ${describe(card)} with driver ${nvidia.driver ?? "unknown"} needs ${buildTitles[wanted]}: pack it --for linux-x64-${wanted}, or use --gpu off`,
  );
}
