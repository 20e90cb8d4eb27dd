/**
 * The stages of a training step, bound to the parts of a run, with the work around the algorithm: timing, messages to the
 * view, and interruption by the user's signal.
 */
import { type BatchGroup, writeBatch } from "../learn/batch.js";
import type { StepMetrics } from "../learn/types.js";
import { comparable, rewardComparable } from "../reward/comparable.js";
import { GroupWork } from "../reward/group-work.js";
import type { GroupReward } from "../reward/reward.js";
import type { RolloutFailure, Trajectory } from "../rollout/trajectory.js";
import { learnerNumerics, numericsOf } from "../run/numerics.js";
import { mismatchesOf, type StepRow } from "../run/records.js";
import type { Scenario } from "../task/task.js";
import { deriveSeed } from "../util/random.js";
import { unlessAborted } from "../util/signals.js";
import { batchOf, type CreditedGroup, creditGroups, creditsOf, meanOver } from "./credit.js";
import { type EarlierPolicy, earlierOf } from "./earlier.js";
import { type Acts, heed } from "./guard.js";
import { stepMetricsRow } from "./metrics.js";
import type { LoopParts } from "./parts.js";
import { actsBefore, interruptible, lookAtPlay, playSaved } from "./saved-play.js";
import { rateOfStep } from "./schedule.js";
import { actsAfter, wakeWith } from "./settle.js";
import type { ClockPhase, StepClock } from "./step-clock.js";
import { policiesSince } from "./version.js";

type Groups = readonly (readonly Trajectory[])[];

export interface PlayRound {
  readonly groups: Groups;
  readonly failures: readonly RolloutFailure[];
  /** Rollouts reused from an interrupted attempt of this step. */
  readonly reused: number;
}

/** The checkpoint and adapter of the policy from now on. */
type InForce = Pick<StepRow, "checkpoint" | "adapter">;

interface DoneStep {
  readonly rounds: readonly PlayRound[];
  readonly groups: readonly CreditedGroup[];
  readonly learnt: StepMetrics | null;
  readonly inForce: InForce;
}

/** What the engine does for a step, in order of the calls; repeated until no scenario is drawn. */
export interface PlayStages {
  /** Draws scenarios. @param soFar the step's groups so far: its own scenarios when there are none, then replacements */
  sample(soFar: readonly CreditedGroup[]): readonly Scenario[];
  /** A group's rewards are requested as soon as it is complete, while others are being played. */
  play(scenarios: readonly Scenario[]): Promise<PlayRound>;
  /** Waits for the outstanding rewards. */
  reward(groups: Groups): Promise<readonly GroupReward[]>;
  advantages(groups: Groups, rewards: readonly GroupReward[]): Promise<readonly CreditedGroup[]>;
}

/** What is learnt from it. */
export interface LearnStages {
  /** Meanwhile the engine's memory is the learner's, unless each has its own. null when no group has a gradient. */
  update(groups: readonly CreditedGroup[]): Promise<StepMetrics | null>;
  /** Gives the new checkpoint its number. */
  publish(learnt: StepMetrics | null): Promise<InForce>;
  commit(done: DoneStep): Promise<StepRow>;
}

/** In order of their calls, see {@link trainStep}. Each throws HoneError when the run cannot continue. */
export interface Stages extends PlayStages, LearnStages {
  /** Wakes the engine with the new adapter, and checks that it plays it. */
  wake(row: StepRow): Promise<StepRow>;
}

/** The stages of the step after `at`, which the policy of then plays. */
export function stagesOf(parts: LoopParts, at: StepRow, clock: StepClock): Stages {
  return {
    ...playStages(parts, at.step + 1, at, clock),
    ...learnStages(parts, at, at, clock),
    wake: (row) => wakeWith(parts, row, clock),
  };
}

/** @param version state of the run whose policy plays the step, and which the engine plays now */
export function playStages(parts: LoopParts, step: number, version: StepRow, clock: StepClock): PlayStages {
  const { settings, scenarios, guards, view, signal } = parts;
  const acts = actsBefore(parts, "train", step);
  const timed = <T>(phase: ClockPhase, work: () => Promise<T>) => clock.measure(phase, work);
  const stoppable = <T>(work: () => Promise<T>) => interruptible(signal, "train", step, work);

  const rewardGroup = rewardComparable(parts.rewardGroup);
  const rewarding = new GroupWork<GroupReward>(
    (group) => rewardGroup(group, step),
    (group, reward) => view.rewarded(comparable(group), reward),
  );

  return {
    sample: (soFar) => scenarios.next(step, soFar, settings.refill),

    play: (scenarios) =>
      rewarding.during(signal, async (signal) => {
        const asked = {
          phase: "train",
          step,
          scenarios,
          groupSize: settings.groupSize,
          adapter: version.adapter,
          onGroup: (group: readonly Trajectory[]) => rewarding.begin(group),
        } as const;
        const played = await timed("rollouts", () => playSaved({ ...parts, signal }, asked));
        await clock.check(() => lookAtPlay(parts, asked, played.groups));
        return played;
      }),

    // Of a group all rollouts of which failed nothing is left to compare.
    reward: (groups) => timed("rewards", () => stoppable(() => rewarding.all(groups, { kind: "broken_off" }))),

    advantages: async (groups, rewards) => {
      const { advantages: options, maskTruncated } = settings;
      const credited = creditGroups(groups, rewards, { ...options, maskTruncated });
      await clock.check(() => heed(guards, "afterCredit", { groups, rewards, credited, options }, acts));
      return credited;
    },
  };
}

/**
 * The stages of the step after `at`.
 * @param version state of the run whose policy played it
 */
export function learnStages(parts: LoopParts, at: StepRow, version: StepRow, clock: StepClock): LearnStages {
  const { run, settings, scenarios, policy, guards, signal } = parts;
  const step = at.step + 1;
  const learningRate = rateOfStep(settings.schedule, step, settings.steps);
  const earlier = earlierOf(run, at.step - version.step);
  const acts = actsBefore(parts, "train", step);
  const numericsWith = (learnt: StepMetrics | null) =>
    numericsOf(settings.numerics.engine, learnt && learnerNumerics(learnt, settings.numerics.hfWeights));
  const timed = <T>(phase: ClockPhase, work: () => Promise<T>) => clock.measure(phase, work);
  const furtherIn = (groups: readonly CreditedGroup[]) => groups.length - scenarios.groupsPerStep;

  return {
    update: async (groups) => {
      // Here rather than where they were played: then all steps before are committed, whatever the timing.
      const schedule = { ...settings.schedule, steps: settings.steps };
      const seen = { groups, steps: run.store.steps(), learningRate, schedule };
      await clock.check(() => heed(guards, "beforeUpdate", seen, acts));
      const further = furtherIn(groups);
      const batch = batchOf(groups, { kl: settings.kl, further });
      if (batch.length === 0) return null;
      if (!settings.apart) await timed("swap", () => Promise.all([policy.sleep(), parts.restJudge?.()]));
      const learnt = await timed("update", () =>
        interruptible(signal, "train", step, () =>
          updateOn(parts, { at, version, groups, further, batch, learningRate, earlier, clock, acts }),
        ),
      );
      clock.addChecks(learnt.seconds.checks);
      const { lastUpdates } = parts;
      const before = mismatchesOf(run.store.steps(), numericsWith(learnt));
      const { checkpoint } = version;
      const told = { learnt, checkpoint, earlier, lastUpdates, settings, before };
      await clock.check(() => heed(guards, "afterUpdate", told, acts));
      return learnt;
    },

    publish: async (learnt) => {
      const { checkpoint, adapter } = learnt?.applied ? await timed("checkpoint", () => run.publish(step)) : at;
      return { checkpoint, adapter };
    },

    commit: async ({ rounds, groups, learnt, inForce }) => {
      const failures = rounds.flatMap((round) => round.failures);
      const further = furtherIn(groups);
      const resting = scenarios.resting(step);
      const row: StepRow = {
        step,
        ...inForce,
        metrics: stepMetricsRow(groups, failures, learningRate, learnt, {
          further,
          resting,
          earlier,
          version: version.step,
          staleness: policiesSince(run.store.steps(), version.step),
        }),
        timing: {
          ...clock.read(),
          reused: rounds.reduce((sum, round) => sum + round.reused, 0),
          memory: learnt?.memory ?? null,
          judge: parts.judgeLap?.() ?? null,
          numerics: numericsWith(learnt),
        },
      };
      // The engine has been seen to play a checkpoint that stays in force. With --staleness it settles steps in order, these too.
      const settled = settings.staleness === 0 && row.checkpoint === at.checkpoint;
      run.store.commitStep(row, creditsOf(groups), settled);
      const after = actsAfter(parts, settled ? undefined : step);
      const looked = () => heed(guards, "afterCommit", { step, groups, learnt }, after);
      await timed("checkpoint", () => clock.check(looked));
      return row;
    },
  };
}

interface Learning {
  readonly at: StepRow;
  readonly version: StepRow;
  readonly groups: readonly CreditedGroup[];
  /** Number of those that were played in place of some with advantages of 0. */
  readonly further: number;
  readonly batch: readonly BatchGroup[];
  readonly learningRate: number;
  readonly earlier: EarlierPolicy | undefined;
  readonly clock: StepClock;
  readonly acts: Acts;
}

async function updateOn(
  { run, settings, updater, guards, view, signal }: LoopParts,
  { at, version, groups, further, batch, learningRate, earlier, clock, acts }: Learning,
): Promise<StepMetrics> {
  const step = at.step + 1;
  const folderOf = (checkpoint: number | null) => ({ checkpoint: run.checkpointOf({ checkpoint }) ?? null });
  view.phase(step, "update", batch.length);
  await writeBatch(run.batchFile, batch, { temperature: settings.temperature, step });
  const seed = deriveSeed("second path", settings.seed, step);
  const mean = meanOver(groups, further);
  const written = { file: run.batchFile, batch, seed, whole: !settings.maskTruncated, groups, further, mean };
  await clock.check(() => heed(guards, "afterBatch", written, acts));
  signal.throwIfAborted();
  await unlessAborted(updater.prepare(run.checkpointOf(at)), signal);
  signal.throwIfAborted();
  return updater.update({
    batch: run.batchFile,
    into: run.checkpoints.draft(step),
    from: run.checkpointOf(at),
    adapter: at.adapter,
    learningRate,
    ...mean,
    ...(version.checkpoint === at.checkpoint ? {} : { playedBy: folderOf(version.checkpoint) }),
    ...(earlier ? { earlier: folderOf(earlier.checkpoint) } : {}),
    ...(earlier?.previous === undefined ? {} : { previous: folderOf(earlier.previous) }),
    seed: deriveSeed("minibatches", settings.seed, step),
    adapterType: settings.adapterType,
    signal,
    onAsk: (asked) => heed(guards, "beforeAsking", { asked }, acts),
    onProgress: (progress) => view.progress(progress),
  });
}
