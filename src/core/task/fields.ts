/**
 * Objects that a task's author writes, checked: misspelt fields are refused by name, since an unknown field would be ignored.
 */
import { inspect } from "node:util";
import { nearest } from "../util/nearest.js";
import type { Reward } from "./scenario.js";

const quoted = (name: string) => JSON.stringify(name);

/**
 * The first field of an object that is none of the known ones, in words; undefined where there is none.
 *
 * @param what the object: "a task"
 */
export function unknownField(given: object, known: readonly string[], what: string): string | undefined {
  const unknown = Object.keys(given).filter((name) => !known.includes(name));
  // One that was meant for a known field says more than another.
  const name = unknown.find((one) => nearest(one, known) !== undefined) ?? unknown[0];
  if (name === undefined) return undefined;
  const close = nearest(name, known);
  const hint = close === undefined ? `there are ${known.join(", ")}` : `did you mean ${quoted(close)}?`;
  return `${quoted(name)}, which is no field of ${what}: ${hint}`;
}

/** Fields of a task's definition. */
const TASK_FIELDS = [
  "name",
  "description",
  "options",
  "scenarios",
  "open",
  "close",
  "prompt",
  "tools",
  "mcp",
  "reply",
  "reward",
  "rollout",
  "setUp",
  "tearDown",
  "finalTools",
  "modelMistakes",
  "claim",
  "freeAnswers",
  "shaped",
  "expert",
];

/** Fields of a tool's definition. */
export const TOOL_FIELDS = ["name", "description", "parameters", "final", "execute"];

/** Fields of what a reward function returns. */
export const REWARD_FIELDS = ["reward", "success", "parts"];

/** What is wrong with the fields of a task's definition; undefined where nothing is. */
export function definitionProblem(definition: object): string | undefined {
  const fields = definition as Readonly<Record<string, unknown>>;
  const unknown = unknownField(fields, TASK_FIELDS, "a task");
  const functions = fields.rollout === undefined ? ["scenarios", "prompt", "reward"] : ["scenarios", "rollout"];
  const missing = ["name", ...functions].find((name) => fields[name] === undefined);
  if (missing !== undefined)
    return `the task has no ${quoted(missing)}${unknown === undefined ? "" : `; it has ${unknown}`}`;
  if (unknown !== undefined) return `the task has ${unknown}`;
  if (typeof fields.name !== "string") return `the task's "name" must be a text`;
  const wrong = functions.find((name) => typeof fields[name] !== "function");
  return wrong === undefined ? undefined : `the task's ${quoted(wrong)} must be a function`;
}

/** A task's definition lacks a field, or has one that no task has. */
export class DefinitionError extends TypeError {
  override readonly name = "DefinitionError";
}

function jsonOf(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch {
    // A circle, or a bigint.
    return inspect(value, { breakLength: Number.POSITIVE_INFINITY });
  }
}

/** "\"1\" (a string)"; a number as it is. */
export function shown(value: unknown): string {
  if (typeof value === "number" || value === undefined || value === null) return String(value);
  const text = typeof value === "object" || typeof value === "string" ? jsonOf(value) : String(value);
  return `${text.slice(0, 100)} (a ${typeof value})`;
}

/** Tasks need not be checked by TypeScript. @throws Error unless success is a boolean and each part a finite number */
export function checkOutcome({ success, parts }: Pick<Reward, "success" | "parts">, whose: string): void {
  if (typeof success !== "boolean") throw new Error(`${whose} has the success ${shown(success)}, not true or false`);
  if (typeof parts !== "object" || parts === null)
    throw new Error(`${whose} has the parts ${shown(parts)}, not an object`);
  const wrong = Object.entries(parts).find(([, value]) => !Number.isFinite(value));
  if (wrong) throw new Error(`${whose} has the part ${wrong[0]}: ${shown(wrong[1])}, not a finite number`);
}

/**
 * A reward as it was returned; its parts may be left out.
 *
 * @param whose for the message: "the reward of task sums for scenario s1"
 * @throws Error unless it is a reward
 */
export function checkReward(returned: unknown, whose: string): Reward {
  if (typeof returned !== "object" || returned === null)
    throw new Error(`${whose} is ${shown(returned)}, not an object: return { reward, success, parts }`);
  const unknown = unknownField(returned, REWARD_FIELDS, "a reward");
  if (unknown !== undefined) throw new Error(`${whose} has ${unknown}`);
  const missing = ["reward", "success"].find((name) => !Object.hasOwn(returned, name));
  if (missing !== undefined) throw new Error(`${whose} has no "${missing}": return { reward, success, parts }`);
  const { reward } = returned as Partial<Reward>;
  if (!Number.isFinite(reward)) throw new Error(`${whose} is ${shown(reward)}, not a finite number`);
  const checked = { ...(returned as Reward), parts: (returned as Partial<Reward>).parts ?? {} };
  checkOutcome(checked, whose);
  return checked;
}
