/**
 * Loads a task: the built-in one by name, a user's by the path of its file (TypeScript or JavaScript, through jiti).
 */
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { HoneError, importUserFile, messageOf, UsageError } from "../util/index.js";
import { emailTask } from "./email/index.js";
import type { AnyTask, PlainOptions, Scenario, ScenarioIo } from "./task.js";

/** Built-in tasks. */
const builtIn: readonly AnyTask[] = [emailTask as unknown as AnyTask];

function isTask(value: unknown): value is AnyTask {
  if (typeof value !== "object" || value === null) return false;
  const task = value as Record<string, unknown>;
  return (
    typeof task.name === "string" &&
    typeof task.scenarios === "function" &&
    typeof task.prompt === "function" &&
    typeof task.reward === "function" &&
    typeof task.open === "function" &&
    typeof task.options === "object" &&
    Array.isArray(task.tools)
  );
}

/**
 * Loads a task in this thread. Workers call it again with the same reference: closures cannot be sent to them.
 *
 * @param reference "email", or the path of a file whose default export comes from `defineTask`
 */
export async function loadTask(reference: string): Promise<AnyTask> {
  const known = builtIn.find((task) => task.name === reference);
  if (known) return known;
  const file = resolve(reference);
  if (!existsSync(file)) {
    throw new UsageError(
      `there is no task file ${file}; give the path of one, or a task of hone's: ${builtIn.map((task) => task.name).join(", ")}`,
    );
  }
  let loaded: unknown;
  try {
    loaded = await importUserFile(file);
  } catch (error) {
    throw new HoneError(`the task file ${file} could not be loaded: ${messageOf(error).split("\n")[0]}`, {
      cause: error,
    });
  }
  if (!isTask(loaded)) {
    throw new HoneError(
      `the task file ${file} has no task: it must \`export default defineTask({...})\` from "@hone-rl/hone"`,
    );
  }
  return loaded;
}

/**
 * The scenarios of a task.
 *
 * @param io access for downloading scenarios from the Hub
 * @throws HoneError when the task's own code fails
 */
export async function scenariosOf(task: AnyTask, options: PlainOptions, io?: ScenarioIo): Promise<readonly Scenario[]> {
  try {
    return await task.scenarios(options, io);
  } catch (error) {
    if (error instanceof HoneError) throw error;
    throw new HoneError(`the task ${task.name} could not list its scenarios: ${messageOf(error)}`, { cause: error });
  }
}
