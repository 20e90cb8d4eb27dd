/** What several ranks of a learner do without. native/learner/launch.py says the rest, once there is a command to run. */
import { UsageError } from "../util/index.js";

export interface LaunchChoice {
  readonly learnerLaunch?: string | undefined;
  readonly learnerLaunchAddress?: string | undefined;
  /** Over which each weight is shared out. */
  readonly learnerShards?: number | undefined;
  readonly adamBits?: string;
  readonly learner: string;
  readonly learnerLifetime?: string;
}

/** @throws UsageError where another option is given that ranks cannot have */
export function checkLaunch(choice: LaunchChoice): void {
  const { learnerLaunch, learnerLaunchAddress, learnerShards, learner, learnerLifetime, adamBits } = choice;
  if (learnerLaunch === undefined) {
    if (learnerLaunchAddress !== undefined) {
      throw new UsageError(
        "--learner-launch-address is where hone listens for the processes of --learner-launch; give that too, or leave it out",
      );
    }
    if (learnerShards === undefined) return;
    throw new UsageError(
      `--learner-shards ${learnerShards} shares out the weights over processes of the learner; start them with --learner-launch "torchrun --nproc-per-node ${learnerShards}"`,
    );
  }
  if (learner === "unsloth") {
    throw new UsageError(
      "--learner-launch starts several processes for an update, and Unsloth computes in one; use --learner peft",
    );
  }
  if (learnerLifetime === "offload") {
    throw new UsageError(
      `--learner-launch: with several processes the learner does not move off the GPUs between updates; use --learner-lifetime ${learnerShards === undefined ? "step" : "run"} in place of offload`,
    );
  }
  if (learnerShards === undefined) return;
  if (learnerLifetime === "step") {
    throw new UsageError(
      "--learner-shards: the parts of the weights stay on the GPUs between updates; use --learner-lifetime run in place of step",
    );
  }
  if (adamBits === "8") {
    throw new UsageError(
      "--learner-shards: Adam's moments of 8 bits are of whole weights, and each process has a part; use --adam-bits 32",
    );
  }
}
