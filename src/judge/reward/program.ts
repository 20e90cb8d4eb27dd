/** The reward of a run that a program trains by `trainRun` with a function of its own. */

import type { RewardGroup } from "../../core/reward/reward.js";
import { UsageError } from "../../core/util/errors.js";
import { ordinary, PROGRAM, programFacts, type RewardCode, type RewardKind } from "./kind.js";

function missing(): never {
  throw new UsageError(
    "the reward is a function of a program that calls trainRun (docs/library.md); train by that program, or start a run with --run NAME and another --reward",
  );
}

/** As a run records it: without the function. */
export const unknownProgram: RewardCode = { ...ordinary, requireTask: missing, open: missing };

/** With its function. */
export function programReward(rewardGroup: RewardGroup, spreadFloor: number): RewardKind {
  const code = { ...ordinary, open: () => rewardGroup };
  return { name: PROGRAM, ...programFacts, spreadFloor, ...code };
}
