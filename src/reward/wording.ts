/** What is said before training on answers that the task's own reward compares by their wording. */
import type { RunSettings } from "../run/index.js";
import type { AnyTask, Scenario } from "../tasks/index.js";

/** One line; undefined where answers are short and exact, or a judge reads them. */
export function wordingWarning(
  { reward, accuracy }: Pick<RunSettings, "reward" | "accuracy">,
  task: AnyTask,
  scenarios: readonly Scenario[],
): string | undefined {
  if (reward !== "task" || !task.freeAnswers?.(scenarios)) return undefined;
  const rewards = task.shaped ? "--reward shaped or --reward ruler" : "--reward ruler";
  const heldOut = accuracy === "task" && task.claim ? "; --accuracy judge for held-out answers" : "";
  return `warning: --reward task compares answers by their wording, and these are free text: one that is right in other words counts as wrong. A judge reads them with ${rewards}${heldOut}`;
}
