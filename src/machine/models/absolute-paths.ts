/** Options that name files. */
import { existsSync, statSync } from "node:fs";
import { resolve } from "node:path";
import { fileOptions, type GivenOptions } from "../../core/config/config.js";
import { isCatalogueName } from "./reference.js";

/** Options that name files, made absolute: a run may be continued from another folder. */
export function withAbsolutePaths(given: GivenOptions): GivenOptions {
  const absolute = fileOptions().flatMap((name) => {
    const value = given[name];
    // A name that is no file is one of hone's own, a model of the catalogue or a built-in task, or a judge's at its server.
    const known =
      typeof value === "string" &&
      ((name === "model" && isCatalogueName(value)) ||
        (name === "judgeModel" && (given.judgeUrl !== undefined || isCatalogueName(value))));
    const exists = typeof value === "string" && !known && existsSync(value);
    // A folder may be a model's, and is no task's: beside one that is called "email" the task email is still hone's own.
    return exists && (name !== "task" || statSync(value).isFile()) ? [[name, resolve(value)] as const] : [];
  });
  return { ...given, ...Object.fromEntries(absolute) };
}
