/** `--control`: rewards without information about the rollout, to show that nothing is learnt from them. */

import type { RewardGroup } from "../../core/reward/reward.js";
import { Random } from "../../core/util/random.js";

/** A control: fair coins in place of rewards. An improvement under it is not due to the reward. */
export function randomReward(seed: number): RewardGroup {
  return async (group, step) => ({
    kind: "rewarded",
    rewards: group.map(({ scenario, index }) =>
      new Random("random-reward", seed, step, scenario.id, index).chance(0.5) ? 1 : 0,
    ),
  });
}
