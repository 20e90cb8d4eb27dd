/** Arguments of the library's functions, as programs give them, which no type may have checked. */
import { unknownField } from "../core/task/fields.js";
import type { Scenario } from "../core/task/task.js";
import { UsageError } from "../core/util/errors.js";

/** @throws UsageError for options that are none, or have a field that the function would ignore */
export function checkChoice(what: string, choice: unknown, fields: Readonly<Record<string, true>>): void {
  if (typeof choice !== "object" || choice === null) throw new UsageError(`${what}: its options must be an object`);
  const unknown = unknownField(choice, Object.keys(fields), "its options");
  if (unknown !== undefined) throw new UsageError(`${what} has ${unknown}`);
}

/** @throws UsageError for what is undefined and not to be, or no whole number from `least` on */
export function checkWhole(what: string, value: unknown, least: number): void {
  if (Number.isSafeInteger(value) && (value as number) >= least) return;
  throw new UsageError(`${what} must be a whole number of at least ${least}, and is ${String(value)}`);
}

/** @throws UsageError for what is no model of `openModel`, no task of `openTask`, or no list of scenarios that has any */
export function checkPlay(what: string, model: unknown, task: unknown, scenarios: unknown): void {
  const has = (value: unknown, field: string) => typeof value === "object" && value !== null && field in value;
  if (!has(model, "engine")) throw new UsageError(`${what}: its first argument must be a model of openModel()`);
  if (!has(task, "scenarios")) throw new UsageError(`${what}: its second argument must be a task of openTask()`);
  checkScenarios(what, "third", scenarios);
}

/** @throws UsageError for no list of scenarios that has any */
export function checkScenarios(what: string, argument: "first" | "third", scenarios: unknown): void {
  if (!Array.isArray(scenarios) || !scenarios.every((one: Scenario | undefined) => typeof one?.id === "string"))
    throw new UsageError(`${what}: its ${argument} argument must be a list of scenarios, such as the task's \`train\``);
  if (scenarios.length === 0) throw new UsageError(`${what}: its list of scenarios is empty`);
}
