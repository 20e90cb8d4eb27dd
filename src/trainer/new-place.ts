/** Where a run to be trained is stored, whether it is there or not. */
import { basename, resolve } from "node:path";
import type { Config } from "../core/config/config.js";
import { DEFAULT_MODEL } from "../core/config/defaults.js";
import { UsageError } from "../core/util/errors.js";
import { loadTask } from "../scenarios/load.js";

/**
 * Examples: "qwen2.5-0.5b-instruct-f16" for the path of that file or hf:REPOSITORY:FILE, "tiny" for that name,
 * "Qwen2.5-0.5B-Instruct" for that repository at any revision.
 */
const stem = (model: string) =>
  basename(model)
    .replace(/^.*:/, "")
    .replace(/@.*$/, "")
    .replace(/\.gguf$/i, "");

type Place = Pick<Config, "home" | "project" | "run" | "model" | "task"> & Partial<Pick<Config, "taskTimeout">>;

/** The folder of a run to be trained. */
export async function placeOf({ home, project, run, model, task, taskTimeout }: Place): Promise<string> {
  const name = run ?? stem(model ?? DEFAULT_MODEL);
  checkName("--run", name);
  const folder = project ?? (await loadTask(task, taskTimeout)).name;
  checkName("--project", folder);
  return resolve(home, folder, "models", name);
}

function checkName(flag: string, name: string): void {
  if (!/^[\w][\w.-]*$/.test(name)) {
    throw new UsageError(`${flag} ${name}: use letters, digits, ".", "_" and "-", it becomes the name of a folder`);
  }
}
