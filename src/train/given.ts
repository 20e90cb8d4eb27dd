/** What was given for a run, as it is kept: wherever it was called from. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { DEFAULT_MODEL, type GivenOptions } from "../config/index.js";
import { isCatalogueName } from "../models/index.js";

/** Options that name files, made absolute: a run goes on from wherever it is called. */
export function withAbsolutePaths(given: GivenOptions): GivenOptions {
  const paths = ["model", "task", "db", "rulerRubric"] as const;
  const absolute = paths.flatMap((name) => {
    const value = given[name];
    // A name that is no file is one of hone's own: a model of the catalogue, a built-in task.
    const known = name === "model" && typeof value === "string" && isCatalogueName(value);
    const isFile = typeof value === "string" && !known && (name === "db" || existsSync(value));
    return isFile ? [[name, resolve(value)] as const] : [];
  });
  return { ...given, ...Object.fromEntries(absolute) };
}

/** The model a run is trained from: given, recorded, or the one that comes with hone. */
export const modelOf = (given: GivenOptions, recorded: unknown) => (given.model ?? recorded ?? DEFAULT_MODEL) as string;
