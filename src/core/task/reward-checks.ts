/** What a task's reward function returned, checked. */
import { REWARD_FIELDS, unknownField } from "./fields.js";
import type { Reward } from "./scenario.js";

/** "\"1\" (a string)"; a number as it is. */
function shown(value: unknown): string {
  if (typeof value === "number" || value === undefined || value === null) return String(value);
  const text = typeof value === "object" || typeof value === "string" ? JSON.stringify(value) : String(value);
  return `${text.slice(0, 100)} (a ${typeof value})`;
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
  return { ...(returned as Reward), parts: (returned as Partial<Reward>).parts ?? {} };
}
