/** What a task must say for a judge to decide whether answers are right. */
import type { Trajectory } from "../../core/rollout/trajectory.js";
import type { AnyTask, Claim, FinishedRollout } from "../../core/task/task.js";
import { UsageError } from "../../core/util/errors.js";

/** As the task's functions are given it. */
export const finishedOf = ({ messages, calls, answer, end, turns, maxTurns }: Trajectory): FinishedRollout => ({
  messages,
  calls,
  answer,
  end,
  turns,
  maxTurns,
});

/** The question about a rollout's answer; null where there is none. */
export const claimOf = (task: AnyTask, trajectory: Trajectory): Claim | null =>
  task.claim?.(finishedOf(trajectory), trajectory.scenario) ?? null;

/** @throws UsageError when the task gives the judge nothing to compare answers with */
export function requireClaim(task: AnyTask, why: string): void {
  if (task.claim) return;
  throw new UsageError(`${why}: the task ${task.name} does not say what to ask a judge; give it a \`claim\``);
}

/** @throws UsageError when the task has no graded reward */
export function requireShaped(task: AnyTask): void {
  requireClaim(task, "--reward shaped");
  if (!task.shaped) throw new UsageError(`--reward shaped: the task ${task.name} has no graded reward (\`shaped\`)`);
}
