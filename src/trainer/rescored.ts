/**
 * The task's own rewards of rollouts that a run keeps, computed again on this thread: the reward sees the conversation, its calls and
 * a fresh environment.
 */
import { basename } from "node:path";
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { RunSettings } from "../core/run/settings.js";
import type { RunStore } from "../core/run/store.js";
import type { ServerPlan } from "../core/task/servers.js";
import type { AnyTask, PlainOptions } from "../core/task/task.js";
import { messageOf } from "../core/util/errors.js";
import { isRecomputable } from "../judge/reward/open.js";

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

/** Rollouts that are rewarded again when a run goes on, at most. */
const ROLLOUTS = 8;

/** Milliseconds for that. What takes longer is left out, so that a slow reward does not delay the run. */
const PATIENCE_MS = 5000;

/** Some of the rollouts, of as many different rewards as there are: a change of one of them is then seen. */
function someOf(trajectories: readonly Trajectory[]): Trajectory[] {
  const byReward = new Map<number, Trajectory[]>();
  for (const one of trajectories) {
    const { reward } = one.reward;
    byReward.set(reward, [...(byReward.get(reward) ?? []), one]);
  }
  const chosen: Trajectory[] = [];
  for (let place = 0; chosen.length < Math.min(ROLLOUTS, trajectories.length); place++) {
    chosen.push(...[...byReward.values()].flatMap((alike) => alike[place] ?? []));
  }
  return chosen.slice(0, ROLLOUTS);
}

/** @returns what was rewarded in time, and the error that ended it */
async function inTime(rewarding: AsyncGenerator<Rescored, undefined>) {
  const rescored: Rescored[] = [];
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), PATIENCE_MS);
  });
  try {
    for (;;) {
      const next = await Promise.race([rewarding.next(), late]);
      // The environment is closed once the reward that is under way has ended.
      if (next === "late") rewarding.return(undefined).catch(() => undefined);
      if (next === "late" || next.done) return { rescored, problem: undefined };
      rescored.push(next.value);
    }
  } catch (error) {
    return { rescored, problem: messageOf(error) };
  } finally {
    clearTimeout(timer);
  }
}

/**
 * A warning where the task now rewards rollouts of the run's last step otherwise than then: validations before and after are compared
 * to choose the best checkpoint. Undefined where it does not, and where the rewards that train are a judge's, a program's or a
 * control's.
 */
export async function rescoredText(
  store: Pick<RunStore, "lastStep" | "rollouts">,
  { settings, task: taskOf }: { readonly settings: RunSettings; readonly task: TaskOf },
): Promise<string | undefined> {
  if (settings.control !== "none" || !isRecomputable(settings)) return undefined;
  const { step } = store.lastStep();
  const chosen = someOf(store.rollouts("train", step));
  if (chosen.length === 0 || whyNotRescored(chosen, taskOf) !== undefined) return undefined;
  const { rescored, problem } = await inTime(rescore(chosen, taskOf));
  const failed = rescored.flatMap(({ now }) => (typeof now === "number" ? [] : [now.problem]));
  const other = rescored.filter(({ trajectory, now }) => typeof now === "number" && now !== trajectory.reward.reward);
  const without = problem === undefined ? failed.length : chosen.length - rescored.length + failed.length;
  const of = (n: number) => `${n} of ${chosen.length} rollouts of step ${step}`;
  const found = [
    ...(other.length > 0 ? [`rewards ${of(other.length)} otherwise than before`] : []),
    ...(without > 0 ? [`fails to reward ${of(without)} again (${problem ?? failed[0]})`] : []),
  ];
  if (found.length === 0) return undefined;
  return `${basename(settings.task)} ${found.join(" and ")}: if you changed it, give --run NAME for a new run, since old and new rewards are compared to choose the best checkpoint`;
}
