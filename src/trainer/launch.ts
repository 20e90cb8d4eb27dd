/** What several ranks of a learner do without. native/learner/launch.py says the rest, once there is a command to run. */
import { UsageError } from "../core/util/errors.js";

export interface LaunchChoice {
  readonly learnerLaunch?: string | undefined;
  readonly learner: string;
  readonly learnerLifetime?: string;
}

/** @throws UsageError where another option is given that ranks cannot have */
export function checkLaunch(choice: LaunchChoice): void {
  const { learnerLaunch, learner, learnerLifetime } = choice;
  if (learnerLaunch === undefined) return;
  if (learner === "unsloth") {
    throw new UsageError(
      "--learner-launch starts several processes for an update, and Unsloth computes in one; use --learner peft",
    );
  }
  if (learnerLifetime === "offload") {
    throw new UsageError(
      "--learner-launch: with several processes the learner does not move off the GPUs between updates; use --learner-lifetime step in place of offload",
    );
  }
}
