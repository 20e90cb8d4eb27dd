/** What is said before training on answers that the task's own reward compares by their wording. */
import type { RunSettings } from "../../core/run/settings.js";
import type { AnyTask } from "../../core/task/task.js";
import { UsageError } from "../../core/util/errors.js";
import { rewardNamed, rewardNames } from "./registry.js";

/** Rewards for which a judge reads the answers of this task. */
function judgedFor(task: AnyTask): string[] {
  const kinds = rewardNames.map(rewardNamed).filter(({ judged }) => judged);
  return kinds.flatMap(({ name, requireTask }) => {
    try {
      requireTask(task);
      return [`--reward ${name}`];
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      return [];
    }
  });
}

/** One line, for a task whose answers are free text; undefined where a judge reads them. */
export function wordingWarning(
  { reward, accuracy }: Pick<RunSettings, "reward" | "accuracy">,
  task: AnyTask,
): string | undefined {
  if (!rewardNamed(reward).comparesByWording) return undefined;
  const rewards = judgedFor(task).join(" or ");
  const heldOut = accuracy === "task" && task.claim ? "; --accuracy judge for held-out answers" : "";
  return `warning: --reward ${reward} compares answers by their wording, and these are free text: one that is right in other words counts as wrong. A judge reads them with ${rewards}${heldOut}`;
}
