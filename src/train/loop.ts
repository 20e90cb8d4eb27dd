/**
 * The training loop. A step plays groups of rollouts, turns their rewards into advantages, updates the adapter, and
 * publishes a checkpoint; its row in the store is the commit point. Until then everything it did can be done again, and
 * what it had saved is used again: the process may end at any moment.
 */
import { once } from "node:events";
import { type AdvantageOptions, type StepMetrics, writeBatch } from "../learn/index.js";
import { comparable, rewardComparable } from "../reward/comparable.js";
import type { GradeRollout, GroupReward, RewardGroup } from "../reward/reward.js";
import { gapsOf, type JudgeCount, metricsLine, type StepRow } from "../run/records.js";
import type { Run } from "../run/run.js";
import { checkGap, checkProbe, type GapSettings, gapLimits } from "./gap.js";
import { GroupWork } from "./group-work.js";
import { checkProgress } from "./guards.js";
import { batchOf, lessonsOf, type Taught, teach } from "./lessons.js";
import { stepMetricsRow } from "./metrics.js";
import type { Policy, Updater, View } from "./parts.js";
import { Interrupted, interruptible, type Playing, playSaved, validate } from "./playing.js";
import type { ScenarioCursor } from "./sampler.js";
import { rateOfStep, type Schedule } from "./schedule.js";
import { StepClock } from "./step-clock.js";

export interface LoopSettings extends GapSettings {
  readonly seed: number;
  readonly steps: number;
  /** Rollouts of each scenario. */
  readonly group: number;
  readonly temperature: number;
  readonly schedule: Schedule;
  readonly advantages: AdvantageOptions;
  /** Steps between two validations; 0 validates at the start and the end alone. */
  readonly validateEvery: number;
  /** Scenarios in a validation. */
  readonly validateN: number;
  /** Newest checkpoints to keep, besides the best. */
  readonly keep: number;
}

export interface LoopParts {
  readonly run: Run;
  readonly settings: LoopSettings;
  readonly scenarios: ScenarioCursor;
  readonly policy: Policy;
  readonly updater: Updater;
  readonly rewardGroup: RewardGroup;
  /** Says whether held-out answers are right; by default the task's own reward does. */
  readonly grade?: GradeRollout;
  /** What the judge was asked since the last call of this. */
  readonly judgeLap?: () => JudgeCount;
  readonly view: View;
  readonly signal: AbortSignal;
}

/**
 * The learner loads while the first rollouts are played.
 *
 * @throws HoneError when the run cannot go on; all finished steps are kept
 */
export async function train(parts: LoopParts): Promise<void> {
  const { run, settings, updater } = parts;
  const at = run.store.lastStep();
  if (at.step >= settings.steps) return trainSteps(parts, at);
  const refused = new AbortController();
  updater.prepare(run.checkpointOf(at)).catch((error: unknown) => refused.abort(error));
  try {
    await trainSteps({ ...parts, signal: AbortSignal.any([parts.signal, refused.signal]) }, at);
  } catch (error) {
    // What was played meanwhile was interrupted by it.
    refused.signal.throwIfAborted();
    throw error;
  }
}

async function trainSteps(parts: LoopParts, start: StepRow): Promise<void> {
  const { run, settings, scenarios, policy } = parts;
  const heldOut = scenarios.ofValidation(settings.validateN);
  const due = (step: number) =>
    step === settings.steps || (step > 0 && settings.validateEvery > 0 && step % settings.validateEvery === 0);

  let at = start;
  const clock = new StepClock();
  const use = (row: StepRow) =>
    clock.measure("swap", async () => {
      const reading = await policy.use(run.adapterOf(row));
      const limits = gapLimits(gapsOf(run.store.steps()), parts.settings);
      checkProbe(reading, limits.mean, `checkpoint ${row.checkpoint}`);
    });
  const validateAt = (row: StepRow) =>
    clock.measure("validation", () => validate(playing(parts), row, heldOut, parts.grade));
  for (;;) {
    if (at.step === 1 && run.store.validations().length === 0) {
      // The start is validated when a step has been done: learning begins at once, and what is wrong shows early.
      const first = run.store.firstStep();
      await use(first);
      await validateAt(first);
    }
    await use(at);
    if (due(at.step)) await validateAt(at);
    run.prune(settings.keep);
    if (at.step >= settings.steps) return;
    at = await trainStep(parts, at, clock);
  }
}

async function trainStep(parts: LoopParts, at: StepRow, clock: StepClock): Promise<StepRow> {
  const { run, settings, scenarios, policy, view, signal } = parts;
  const step = at.step + 1;
  const learningRate = rateOfStep(settings.schedule, step, settings.steps);

  const asked = { phase: "train", step, scenarios: scenarios.ofStep(step), group: settings.group } as const;
  const rewardGroup = rewardComparable(parts.rewardGroup);
  const rewarding = new GroupWork<GroupReward>(
    (group) => rewardGroup(group, step),
    (group, reward) => view.rewarded(comparable(group), reward),
  );
  const { groups, failures, reused } = await clock.measure("rollouts", () =>
    rewarding.during(signal, (signal) =>
      playSaved(
        { ...playing(parts), signal },
        { ...asked, adapter: at.adapter, onGroup: (group) => rewarding.begin(group) },
      ),
    ),
  );
  // What is left to wait for: the rest was rewarded while other groups were played.
  const rewards = await clock.measure("rewards", () =>
    interruptible(signal, "train", step, () => rewarding.all(groups, { kind: "rewarded", rewards: [] })),
  );
  const taught = teach(groups, rewards, settings.advantages);

  await clock.measure("swap", () => policy.rest());
  const update = await clock.measure("update", () => updateOn(parts, at, taught, learningRate));
  const gaps = gapsOf(run.store.steps());
  if (update) {
    try {
      checkGap(update.gap, gapLimits(gaps, settings));
    } catch (error) {
      // They are not of the policy that they are kept as: going on must not take them up again.
      run.store.dropRollouts("train", step);
      throw error;
    }
  }
  const now = update?.applied ? await clock.measure("checkpoint", () => run.publish(step)) : at;
  await clock.measure("swap", () => policy.wake());
  const probe = await clock.measure("swap", () => policy.use(run.adapterOf(now)));
  // Before the step is committed: taking it again also mends a checkpoint whose own files are wrong.
  checkProbe(
    probe,
    gapLimits([...gaps, ...(update ? [update.gap] : [])], settings).mean,
    `step ${step}, which was not taken`,
  );

  const row: StepRow = {
    step,
    checkpoint: now.checkpoint,
    adapter: now.adapter,
    metrics: { ...stepMetricsRow(taught, failures, learningRate, update), probe },
    timing: { seconds: clock.lap(), reused, memory: update?.memory ?? null, judge: parts.judgeLap?.() ?? null },
  };
  run.store.commitStep(row, lessonsOf(taught));
  run.appendMetrics(metricsLine(row));
  view.step(metricsLine(row));
  if (row.metrics?.skipped) checkProgress(run.store.steps().flatMap(({ metrics }) => metrics ?? []));
  return row;
}

/** null when no group teaches anything. */
async function updateOn(
  { run, settings, updater, view, signal }: LoopParts,
  at: StepRow,
  taught: readonly Taught[],
  learningRate: number,
): Promise<StepMetrics | null> {
  const batch = batchOf(taught);
  if (batch.length === 0) return null;
  const step = at.step + 1;
  view.phase(step, "update", batch.length);
  await writeBatch(run.batchFile, batch, { temperature: settings.temperature });
  try {
    signal.throwIfAborted();
    await unlessAborted(updater.prepare(run.checkpointOf(at)), signal);
    return await updater.update({
      batch: run.batchFile,
      into: run.checkpoints.draft(step),
      from: run.checkpointOf(at),
      learningRate,
      signal,
      onProgress: (progress) => view.progress(progress),
    });
  } catch (error) {
    if (signal.aborted) throw new Interrupted("train", step);
    throw error;
  }
}

/** Waits for `work`, but not after the signal has come. */
async function unlessAborted(work: Promise<void>, signal: AbortSignal): Promise<void> {
  const aborted = new AbortController();
  try {
    await Promise.race([work, once(signal, "abort", { signal: aborted.signal })]);
    signal.throwIfAborted();
  } finally {
    aborted.abort();
  }
}

function playing({ run, policy, view, signal, settings }: LoopParts): Playing {
  return { store: run.store, policy, view, signal, seed: settings.seed };
}
