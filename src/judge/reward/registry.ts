/** The rewards that `--reward` can name. To add one, write a file beside this one (see kind.ts) and an entry here. */

import { UsageError } from "../../core/util/errors.js";
import { nearest } from "../../core/util/nearest.js";
import { composedKind } from "./composed.js";
import type { RewardKind } from "./kind.js";
import { programKind } from "./program.js";
import { rulerKind } from "./ruler.js";
import { shapedKind } from "./shaped.js";
import { successKind } from "./success.js";
import { taskKind } from "./task.js";

export const rewardKinds: readonly RewardKind[] = [taskKind, successKind, shapedKind, rulerKind, composedKind];

/**
 * Also the one that no option offers: a run may have recorded it.
 *
 * @throws UsageError when there is no such reward
 */
export function rewardNamed(name: string): RewardKind {
  const found = [...rewardKinds, programKind].find((kind) => kind.name === name);
  if (found) return found;
  const names = rewardKinds.map((kind) => kind.name);
  const close = nearest(name, names);
  throw new UsageError(
    `--reward ${name}: there is no such reward; ${close ? `did you mean ${close}?` : `give one of ${names.join(", ")}`}`,
  );
}

/** For help. */
export function rewardsText(): string {
  const width = Math.max(...rewardKinds.map(({ name }) => name.length)) + 2;
  return ["Rewards (--reward):", ...rewardKinds.map(({ name, about }) => `  ${name.padEnd(width)}${about}`)].join("\n");
}

/** Whether another reward than the task's own trains. */
export function pushesOther(settings: { readonly reward?: unknown; readonly control?: unknown }): boolean {
  const { reward = taskKind.name, control = "none" } = settings;
  return reward !== taskKind.name || control !== "none";
}
