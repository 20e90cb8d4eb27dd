/** One update of a run, from groups that a program has played and rewarded. */
import { comparable, rewardComparable } from "../core/reward/comparable.js";
import type { GroupReward } from "../core/reward/reward.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import { type MetricsLine, metricsLine } from "../core/run/records.js";
import { HoneError, UsageError } from "../core/util/errors.js";
import { checkChoice } from "./checked.js";
import { checkGroupReward, checkNumbers, type GivenReward, isNumbers } from "./rewards.js";
import { openedOf, playInForce, type TrainingRun } from "./training-run.js";

export interface TrainChoice {
  /** One for each group. Default the run's: those that its options name, else the task's own. */
  readonly rewards?: readonly GivenReward[];
  /** A group whose rewards spread less than this gives no advantage. Default 0, or that of the run's rewards; 0.05 suits a judge's scores. */
  readonly spreadFloor?: number;
  readonly signal?: AbortSignal;
}

const FIELDS = { rewards: true, spreadFloor: true, signal: true } satisfies Record<keyof TrainChoice, true>;

type Group = readonly Trajectory[];

async function rewardOf(group: Group, numbers: GivenReward, at: number): Promise<GroupReward> {
  // Rollouts that ended for a reason outside of the model are left out.
  const left = comparable(group);
  if (!isNumbers(numbers)) {
    checkGroupReward(left, numbers, `group ${at}`);
    return numbers;
  }
  checkNumbers(group, numbers, `group ${at}`);
  const reward = async () =>
    ({ kind: "rewarded", rewards: left.map((one) => numbers[group.indexOf(one)] as number) }) as const;
  return rewardComparable(reward)(group, 0);
}

/** Refuses rollouts of another adapter: their tokens were not sampled by the model being updated. */
function checkRollouts(run: TrainingRun, groups: readonly Group[], adapter: string | null): void {
  const ids = groups.flatMap((group) => group[0]?.scenario.id ?? []);
  const twice = ids.find((id, at) => ids.indexOf(id) !== at);
  if (twice !== undefined) throw new HoneError(`two groups are of the scenario ${twice}; a step takes one of each`);
  const other = groups.flat().find(({ player }) => player.kind !== "engine" || player.adapter !== adapter);
  if (other) {
    throw new HoneError(
      `the rollout ${other.id} was not played with the adapter of step ${run.step}; gather anew after each train()`,
    );
  }
}

/**
 * Computes advantages, updates the adapter once (or as often as the run's `iterations` and `minibatches` require), writes a
 * checkpoint, and activates the new adapter. Atomic: a process that ends before resumes after the last complete step.
 *
 * @returns the step's metrics; `skipped` gives the reason if nothing was learnt
 * @throws UsageError when an argument is wrong
 * @throws HoneError when the rollouts cannot be learnt from, or engine and learner disagree
 */
export async function train(
  run: TrainingRun,
  groups: readonly Group[],
  choice: TrainChoice = {},
): Promise<MetricsLine> {
  checkChoice("train()", choice, FIELDS);
  if (!Array.isArray(groups) || !groups.every(Array.isArray))
    throw new UsageError(
      "train(): its second argument must be a list of groups, each a list of rollouts, as gather() gives it",
    );
  const { rewards, signal = new AbortController().signal } = choice;
  const opened = openedOf(run);
  const { parts, plan, guards, rewards: ofRun } = opened;
  const { run: kept, settings } = parts;
  await playInForce(opened);
  const at = kept.store.lastStep();
  const step = at.step + 1;
  if (rewards && rewards.length !== groups.length) {
    throw new HoneError(`${groups.length} groups and ${rewards.length} rewards; give one for each group`);
  }
  const played = groups.filter((group) => group.length > 0);
  if (played.length === 0) throw new HoneError("there is nothing to learn from: no group has a rollout");
  checkRollouts(run, played, at.adapter);
  if (rewards && plan.settings.control !== "none") {
    throw new HoneError(`the run has control ${plan.settings.control}, whose rewards are its own; give none`);
  }
  const own = rewards ? undefined : await ofRun();
  const { spreadFloor = own?.spreadFloor ?? 0 } = choice;
  const given = own
    ? played.map((group) => rewardComparable(own.rewardGroup)(group, step))
    : groups.flatMap((group, i) => (group.length === 0 ? [] : [rewardOf(group, rewards?.[i] ?? [], i)]));
  const rewarded = await Promise.all(given);

  kept.store.dropRollouts("train", step);
  for (const trajectory of played.flat()) kept.store.saveRollout("train", step, trajectory);
  const scenarios = played.flatMap((group) => group[0]?.scenario ?? []);
  const stepParts = {
    ...parts,
    settings: { ...settings, advantages: { ...settings.advantages, spreadFloor } },
    scenarios: { groupsPerStep: played.length, next: () => [], resting: () => 0, ofValidation: () => [] },
    guards: guards(undefined),
    rewardGroup: async () => ({ kind: "rewarded", rewards: [] }) as const,
    signal,
  };
  const [{ pruneCheckpoints }, { lookAtPlay }, { stagesOf }, { trainStep }, { StepClock }] = await Promise.all([
    import("../core/train/earlier.js"),
    import("../core/train/saved-play.js"),
    import("../core/train/stages.js"),
    import("../core/train/step.js"),
    import("../core/train/step-clock.js"),
  ]);
  const clock = new StepClock();
  const row = await trainStep({
    ...stagesOf(stepParts, at, clock),
    sample: (soFar) => (soFar.length === 0 ? scenarios : []),
    play: async () => {
      const asked = { phase: "train", step, adapter: at.adapter } as const;
      await clock.check(() => lookAtPlay(stepParts, asked, played));
      return { groups: played, failures: [], reused: 0 };
    },
    reward: async () => rewarded,
  }).catch(async (error: unknown) => {
    await playInForce(opened).catch(() => undefined);
    throw error;
  });
  pruneCheckpoints(kept, settings.keep);
  return metricsLine(row);
}
