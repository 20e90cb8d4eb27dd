/**
 * The task's own rewards of rollouts that a run keeps, computed again on this thread: the reward sees the conversation, its calls and
 * a fresh environment.
 */
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { ServerPlan } from "../core/task/servers.js";
import type { AnyTask, PlainOptions } from "../core/task/task.js";
import { messageOf } from "../core/util/errors.js";

/** A task that is open, and its options. */
export interface TaskOf {
  readonly task: AnyTask;
  readonly options: PlainOptions;
  readonly servers: ServerPlan | undefined;
}

export interface Rescored {
  readonly trajectory: Trajectory;
  /** The reward now, or the message of the error in its place. */
  readonly now: number | { readonly problem: string };
}

/** Why the task's own rewards cannot be computed again from what is kept; undefined where they can. */
export function whyNotRescored(
  trajectories: readonly Trajectory[],
  { task, servers }: Pick<TaskOf, "task" | "servers">,
): string | undefined {
  if (task.rollout) return "the task's own code played and rewarded";
  if (servers && trajectories.some(({ calls }) => calls.length > 0)) {
    return "they may depend on what MCP servers kept of their calls";
  }
  return undefined;
}

/** @throws HoneError when the task's environment cannot be opened */
export async function* rescore(
  trajectories: readonly Trajectory[],
  { task, options }: Pick<TaskOf, "task" | "options">,
): AsyncGenerator<Rescored, undefined> {
  const env = await task.open(options);
  try {
    for (const trajectory of trajectories) {
      const { messages, calls, answer, end, turns, maxTurns, scenario } = trajectory;
      try {
        const { reward } = await task.reward({ messages, calls, answer, end, turns, maxTurns }, scenario, env);
        yield { trajectory, now: reward };
      } catch (error) {
        yield { trajectory, now: { problem: messageOf(error) } };
      }
    }
  } finally {
    await task.close(env);
  }
}
