/** Options that name files. */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { fileOptions, type GivenOptions } from "../../core/config/config.js";
import { OWN_TASKS } from "../../core/config/defaults.js";
import { isCatalogueName } from "./reference.js";

/** Options that name files, made absolute: a run may be continued from another folder. */
export function withAbsolutePaths(given: GivenOptions): GivenOptions {
  const absolute = fileOptions().flatMap((name) => {
    const value = given[name];
    // A name that is no file is one of hone's own, a model of the catalogue or a built-in task, or a judge's at its server.
    const known =
      typeof value === "string" &&
      ((name === "task" && OWN_TASKS.some((one) => one === value)) ||
        (name === "model" && isCatalogueName(value)) ||
        (name === "judgeModel" && (given.judgeUrl !== undefined || isCatalogueName(value))));
    const isFile = typeof value === "string" && !known && existsSync(value);
    return isFile ? [[name, resolve(value)] as const] : [];
  });
  return { ...given, ...Object.fromEntries(absolute) };
}
