/**
 * The learner's packages as files beside hone: a copy that was unpacked on a machine without a network has them, and its
 * environment is made from nothing else.
 */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { z } from "zod";
import { packageRoot } from "../../core/util/paths.js";
import { BUILDS, WHEELS_FOLDER } from "../../engine/device/environment.js";

export const WHEELS_LIST = "hone-wheels.json";

/** The build of PyTorch, and the version of Python that the packages are for. */
const listSchema = z.object({ build: z.enum(BUILDS), python: z.tuple([z.number(), z.number()]) });

export type PackedWheels = z.infer<typeof listSchema> & { readonly folder: string };

export function packedWheels(root = packageRoot): PackedWheels | undefined {
  const folder = join(root, WHEELS_FOLDER);
  const list = join(folder, WHEELS_LIST);
  return existsSync(list) ? { folder, ...listSchema.parse(JSON.parse(readFileSync(list, "utf8"))) } : undefined;
}
