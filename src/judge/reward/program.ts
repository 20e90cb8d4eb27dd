/** The reward of a run that a program trains by `trainRun` with a function of its own. */

import type { RewardGroup } from "../../core/reward/reward.js";
import { UsageError } from "../../core/util/errors.js";
import { ordinary, type RewardKind } from "./kind.js";

function missing(): never {
  throw new UsageError(
    "the reward is a function of a program that calls trainRun (docs/library.md); train by that program, or start a run with --run NAME and another --reward",
  );
}

/** As a run records it: without the function. */
export const programKind: RewardKind = {
  ...ordinary,
  comparesByWording: false,
  name: "program",
  about: "a function of a program of yours that calls trainRun (docs/library.md)",
  judged: false,
  requireTask: missing,
  open: missing,
};

/** With its function. */
export function programReward(rewardGroup: RewardGroup, spreadFloor: number): RewardKind {
  return { ...programKind, spreadFloor, requireTask: () => undefined, open: () => rewardGroup };
}
