/** The parts of `replay` that need no model: rewards and advantages of a step's stored rollouts. */
import { basename, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { isDeepStrictEqual } from "node:util";
import { comparable, rewardComparable, tooFewLeft } from "../../core/reward/comparable.js";
import type { GroupReward } from "../../core/reward/reward.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { STORE_FILE } from "../../core/run/run.js";
import { RunStore } from "../../core/run/store.js";
import { type CreditedGroup, creditGroups } from "../../core/train/credit.js";
import { messageOf } from "../../core/util/errors.js";
import { isRecomputable, openRewards, spreadFloorOf } from "../../judge/reward/open.js";
import { PROGRAM, rewardNamed } from "../../judge/reward/registry.js";
import type { SeenRollout } from "../../machine/runs/reader.js";
import { chosenScenarios } from "../difficulty.js";
import type { RunPlan } from "../plan-run.js";
import { ScenarioSampler } from "../sampler.js";
import type { KeptStep, ReplayCheck, ReplayedGroups, ReplayIo } from "./types.js";

const trajectoriesOf = (group: readonly SeenRollout[]) => group.map(({ trajectory }) => trajectory);

/** The stored rollouts by scenario, members by index, scenarios in the order in which their first rollout was stored. */
function storedGroups(rollouts: readonly SeenRollout[]): Map<string, SeenRollout[]> {
  const groups = new Map<string, SeenRollout[]>();
  for (const rollout of [...rollouts].sort((a, b) => a.id - b.id)) {
    groups.set(rollout.scenario, [...(groups.get(rollout.scenario) ?? []), rollout]);
  }
  return new Map([...groups].map(([id, group]) => [id, group.sort((a, b) => a.member - b.member)]));
}

/** The reward that the update used, as far as it is stored: the reason of a missing verdict is not. */
function storedReward(group: readonly SeenRollout[]): GroupReward {
  const all = trajectoriesOf(group);
  const left = comparable(all);
  if (tooFewLeft(left, all)) return { kind: "broken_off" };
  const rewards = group.flatMap(({ trainingReward }) => trainingReward ?? []);
  if (rewards.length === left.length) return { kind: "rewarded", rewards };
  const alike = left.every(({ messages }) => isDeepStrictEqual(messages, left[0]?.messages));
  return alike ? { kind: "alike" } : { kind: "no_verdict", reason: "stored" };
}

/** The step's groups, with advantages computed from the stored training rewards. */
export function replayedGroups(
  { at, rollouts, played, difficulty }: KeptStep,
  { task, settings }: Pick<RunPlan, "task" | "settings">,
): ReplayedGroups {
  const stored = storedGroups(rollouts);
  // Of a program's reward the floor is not stored; 0 is its default.
  const spreadFloor = spreadFloorOf(settings, rewardNamed(settings.reward));
  const options = {
    ...{ estimator: settings.advantages, stdFloor: settings.stdFloor, spreadFloor },
    maskTruncated: settings.maskTruncated,
  };
  const credited = (ids: Iterable<string>): CreditedGroup[] => {
    const groups = [...ids].map((id) => stored.get(id) ?? []);
    return creditGroups(groups.map(trajectoriesOf), groups.map(storedReward), options);
  };
  const all = new ScenarioSampler(task.scenarios, settings);
  const sampler = chosenScenarios(all, settings, difficulty, () => played);
  const sampled: string[] = [];
  const groups: CreditedGroup[] = [];
  for (;;) {
    const next = sampler.next(at.step, groups, settings.refill).map(({ id }) => id);
    if (next.length === 0 || next.some((id) => !stored.has(id))) break;
    sampled.push(...next);
    groups.push(...credited(next));
  }
  const inOrder = sampled.length === stored.size;
  const further = inOrder ? Math.max(0, sampled.length - settings.groupsPerStep) : 0;
  return { groups: inOrder ? groups : credited(stored.keys()), further, inOrder };
}

/** "64 rollouts" or "3 of 64 rollouts, the first QUESTION/2: now 1, was 0" */
function compared<T>(
  part: ReplayCheck["part"],
  what: string,
  pairs: readonly { readonly id: string; readonly now: T; readonly was: T }[],
): ReplayCheck {
  const other = pairs.filter(({ now, was }) => now !== was);
  const [first] = other;
  if (!first) return { part, result: "same", text: `${what} of ${pairs.length} rollouts` };
  const { id, now, was } = first;
  const text = `${what} of ${other.length} of ${pairs.length} rollouts: of ${id} it is ${now} now and was ${was}`;
  return { part, result: "differs", text };
}

const skipped = (part: ReplayCheck["part"], text: string): ReplayCheck => ({ part, result: "skipped", text });

/** Both kinds of reward, computed again. */
export async function replayRewards(
  { at, folder, rollouts }: KeptStep,
  { task: taskOf, settings, config }: RunPlan,
  { log, signal }: ReplayIo,
): Promise<ReplayCheck[]> {
  const own = await ownRewards(trajectoriesOf(rollouts), taskOf);
  if (!isRecomputable(settings)) {
    const who = settings.reward === PROGRAM ? "a program's function" : "a judge";
    return [own, skipped("training rewards", `${who} gave them; those that are stored are used`)];
  }
  using store = RunStore.read(join(folder, STORE_FILE));
  const { task, options: taskOptions } = taskOf;
  const opened = { settings, config, task, taskOptions, store, signal, log };
  const { rewardGroup, close } = await openRewards(opened);
  try {
    const reward = rewardComparable(rewardGroup);
    const pairs = [];
    for (const group of storedGroups(rollouts).values()) {
      const now = await reward(trajectoriesOf(group), at.step);
      const left = comparable(trajectoriesOf(group));
      for (const { trajectory, trainingReward: was } of group) {
        const at = left.indexOf(trajectory);
        const value = now.kind === "rewarded" && at >= 0 ? (now.rewards[at] ?? null) : null;
        pairs.push({ id: trajectory.id, now: value, was });
      }
    }
    return [own, compared("training rewards", `--reward ${settings.reward}`, pairs)];
  } finally {
    await close();
  }
}

/**
 * The task's own rewards, computed on this thread: a reward sees the conversation, its calls and a fresh environment.
 *
 * @throws HoneError when the task's environment cannot be opened
 */
async function ownRewards(
  trajectories: readonly Trajectory[],
  { task, options, servers }: RunPlan["task"],
): Promise<ReplayCheck> {
  const part = "task rewards";
  if (task.rollout) return skipped(part, "the task's own code played and rewarded");
  if (servers && trajectories.some(({ calls }) => calls.length > 0)) {
    return skipped(part, "they may depend on what MCP servers kept of their calls");
  }
  const env = await task.open(options);
  const pairs: { id: string; now: number | string; was: number }[] = [];
  try {
    for (const { id, messages, calls, answer, end, turns, maxTurns, scenario, reward: was } of trajectories) {
      let now: number | string;
      try {
        now = (await task.reward({ messages, calls, answer, end, turns, maxTurns }, scenario, env)).reward;
      } catch (error) {
        now = `an error (${messageOf(error)})`;
      }
      pairs.push({ id, now, was: was.reward });
    }
  } finally {
    await task.close(env);
  }
  return compared<number | string>(part, "the task's reward", pairs);
}

/** Rollouts that are rewarded again when a run goes on, at most, and the time for it: a slow reward does not delay the run. */
const ROLLOUTS = 8;
const PATIENCE_MS = 5000;

/**
 * A warning where the task now rewards rollouts of the run's last step otherwise than then: validations before and after are compared
 * to choose the best checkpoint. Undefined where it does not, where that takes long, and where the rewards that train are a judge's, a
 * program's or a control's.
 */
export async function rewardsChanged(
  store: Pick<RunStore, "lastStep" | "rollouts">,
  { settings, task }: Pick<RunPlan, "settings" | "task">,
): Promise<string | undefined> {
  if (settings.control !== "none" || !isRecomputable(settings)) return undefined;
  const played = store.rollouts("train", store.lastStep().step);
  // Of each reward one first: a change of one of them is then seen.
  const ofEach = new Map(played.map((one) => [one.reward.reward, one])).values();
  const some = [...new Set([...ofEach, ...played])].slice(0, ROLLOUTS);
  const problem = (error: unknown) => ({ result: "differs", text: `the task's rewards: ${messageOf(error)}` });
  const found = await Promise.race([
    ownRewards(some, task).catch(problem),
    delay(PATIENCE_MS, undefined, { ref: false }),
  ]);
  if (found?.result !== "differs") return undefined;
  return `${found.text}; if you changed ${basename(settings.task)}, give --run NAME for a new run, since old and new rewards are compared to choose the best checkpoint`;
}

export function compareAdvantages({ rollouts }: KeptStep, { groups }: ReplayedGroups): ReplayCheck {
  const now = new Map(
    groups.flatMap(({ members, rewarded }) =>
      rewarded ? members.map(({ trajectory, advantage }) => [trajectory.id, advantage] as const) : [],
    ),
  );
  const pairs = rollouts.map(({ trajectory: { id }, advantage: was }) => ({ id, now: now.get(id) ?? null, was }));
  return compared("advantages", "advantages from the stored rewards", pairs);
}
