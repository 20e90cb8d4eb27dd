/** Rewards that a program gives. */
import type { GroupReward } from "../core/reward/reward.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import { HoneError } from "../core/util/errors.js";

/** A number for each rollout of a group, in order; or the result of a ruler. */
export type GivenReward = readonly number[] | GroupReward;

export const isNumbers = (given: GivenReward): given is readonly number[] => Array.isArray(given);

const KINDS = ["rewarded", "alike", "broken_off", "no_verdict"];

/**
 * @param group the comparable rollouts
 * @param name of the group, for the message
 * @throws HoneError for what is no {@link GroupReward}, or not one of this group
 */
export function checkGroupReward(group: readonly Trajectory[], given: GroupReward, name: string): void {
  const kind: unknown = typeof given === "object" && given !== null ? given.kind : undefined;
  if (!KINDS.includes(kind as string)) {
    throw new HoneError(
      `the reward of ${name} is neither a list of numbers nor { kind }, with one of ${KINDS.join(", ")} as the kind`,
    );
  }
  if (given.kind !== "rewarded") return;
  const { rewards, parts = [], explanations } = given;
  if (!Array.isArray(rewards)) throw new HoneError(`the reward of ${name} has no list of rewards`);
  checkNumbers(group, rewards, name);
  for (const [what, list] of Object.entries({ parts: given.parts, explanations })) {
    if (list !== undefined && (!Array.isArray(list) || list.length !== group.length))
      throw new HoneError(`${name} has ${group.length} rollouts; give ${what} for each, or none`);
  }
  for (const [at, one] of parts.entries()) {
    const wrong = Object.entries(one).find(([, value]) => !Number.isFinite(value));
    if (wrong) throw new HoneError(`the part ${wrong[0]} of rollout ${group[at]?.id} is ${wrong[1]}, not a number`);
  }
}

/**
 * @param name of the group, for the message
 * @throws HoneError when they are not one number for each rollout
 */
export function checkNumbers(group: readonly Trajectory[], numbers: readonly number[], name: string): void {
  if (numbers.length !== group.length) {
    throw new HoneError(`${name} has ${group.length} rollouts and ${numbers.length} rewards; give one for each`);
  }
  const wrong = numbers.findIndex((number) => !Number.isFinite(number));
  if (wrong >= 0) throw new HoneError(`the reward of rollout ${group[wrong]?.id} is ${numbers[wrong]}, not a number`);
}
