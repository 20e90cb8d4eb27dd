/** `--control`: rewards that say nothing of a rollout, to show that nothing is learnt from them. */
import { Random } from "../util/index.js";
import type { RewardGroup } from "./reward.js";

/** A control: fair coins in place of rewards. What rises under it did not rise because of the reward. */
export function randomReward(seed: number): RewardGroup {
  return async (group, step) => ({
    kind: "rewarded",
    rewards: group.map(({ scenario, index }) =>
      new Random("random-reward", seed, step, scenario.id, index).chance(0.5) ? 1 : 0,
    ),
  });
}
