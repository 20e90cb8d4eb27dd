/** Rewards that a program gives. */
import type { GroupReward } from "../core/reward/reward.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import { HoneError } from "../core/util/errors.js";

/** A number for each rollout of a group, in order; or the result of a ruler. */
export type GivenReward = readonly number[] | GroupReward;

export const isNumbers = (given: GivenReward): given is readonly number[] => Array.isArray(given);

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
