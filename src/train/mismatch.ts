/**
 * The distance between engine and learner: they must be one policy, or the learner learns from another policy's rollouts.
 * Checked twice: over all sampled tokens of a step before its update is accepted, and on a checkpoint's probe (probe.ts)
 * before anything is played with it.
 */
import type { StepMetrics } from "../learn/index.js";
import type { ProbeReading } from "../run/index.js";
import { HoneError } from "../util/index.js";

type Mismatch = StepMetrics["mismatch"];

/**
 * Highest ratio of a step's distance to that of the run's first step with the same numerics. The rounding stays the
 * same, the tokens differ. Measured on the tiny model (f16) over runs of 12 and 10 steps:
 * correct steps up to 5.1 times the mean of the first and 4.1 times its p99, mostly as small batches differ; an adapter
 * one update old gave 10 to 22 times the mean and 12 to 26 times p99 (3 and 4 times once, when almost all rollouts were
 * alike).
 */
export const MISMATCH_MULTIPLE = 8;
/**
 * Lower bound of a limit: a first step of few or very certain tokens may have no distance at all. A mean of 0.0015 nats
 * is three roundings (2⁻¹¹) of a cache in f16.
 */
export const MISMATCH_FLOOR = { mean: 0.0015, p99: 0.03 };

/** Factor for a probe, which has the tokens of one rollout: its mean varies more than that of a step. */
const PROBE_TOLERANCE = 3;
/**
 * An engine that is nearer to the policy after the update than to the one before by this factor plays it. The rest is
 * rounding, which grows with the update: a learning rate that makes sampled tokens unlikely (0.5 nats a token) left
 * 0.008 nats, 66 times less.
 */
const PROBE_NEAR = 30;
/** The engine plays the policy before the update if it is nearer to that one by this factor ... */
const PROBE_RATIO = 3;
/** ... and the two policies differ by more than rounding, in nats per token. */
const PROBE_DIFFERENCE = 1e-4;

/** Limit of the mean distance: weights of 8 bits and less are rounded differently by engine and learner. */
export function mismatchLimit(weightType: string): number {
  return /^(F16|BF16|F32)$/i.test(weightType) ? 0.02 : 0.05;
}

export interface MismatchSettings {
  /** Limit of the mean, in nats. */
  readonly maxMismatch: number;
  /** Whether later steps are limited by a multiple of the first too. */
  readonly calibrateMismatch: boolean;
  /** The engine's device and precision, and whether the learner's base weights come from --hf-weights. */
  readonly numerics: { readonly engine: string; readonly hfWeights: boolean };
  /** What brings them closer; see {@link bringCloser}. */
  readonly closer: string;
}

export interface MismatchLimits {
  readonly mean: number;
  readonly p99: number;
  /** The step of reference; undefined when there is none yet, or none is wanted. */
  readonly first: Mismatch | undefined;
}

/** @param mismatches of the run's updates with these numerics so far, oldest first */
export function mismatchLimits(
  mismatches: readonly Mismatch[],
  { maxMismatch, calibrateMismatch }: Pick<MismatchSettings, "maxMismatch" | "calibrateMismatch">,
): MismatchLimits {
  const first = calibrateMismatch ? mismatches[0] : undefined;
  if (!first) return { mean: maxMismatch, p99: Number.POSITIVE_INFINITY, first };
  const p99 = Math.max(MISMATCH_FLOOR.p99, MISMATCH_MULTIPLE * first.p99);
  return { mean: Math.min(maxMismatch, Math.max(MISMATCH_FLOOR.mean, MISMATCH_MULTIPLE * first.mean)), p99, first };
}

/** The mismatch has grown since the run's first step: the rollouts were probably played by another policy than recorded. */
export class MismatchGrew extends HoneError {}

/**
 * Checks that the learner trains the model that played.
 * @param closer see {@link bringCloser}
 * @throws MismatchGrew when the mismatch has grown since the first step; the step must not be committed then
 * @throws HoneError when it exceeds the limit otherwise; the step must not be committed then
 */
export function checkMismatch(mismatch: Mismatch, { mean, p99, first }: MismatchLimits, closer: string): void {
  if (mismatch.mean <= mean && mismatch.p99 <= p99) return;
  const far = `engine and learner disagree: the log-probabilities of the sampled tokens differ by ${mismatch.mean.toFixed(4)} on average (p99 ${mismatch.p99.toFixed(3)}, max ${mismatch.max.toFixed(3)}), the limit is ${Number(mean.toFixed(4))}`;
  if (first && (mismatch.p99 > p99 || mismatch.mean > Math.max(MISMATCH_FLOOR.mean, MISMATCH_MULTIPLE * first.mean))) {
    throw new MismatchGrew(
      `${far} (p99 ${p99.toFixed(3)}) after ${first.mean.toFixed(4)} (p99 ${first.p99.toFixed(3)}) in the run's first step: most likely another adapter played than the learner has; the step was not taken. ` +
        "The same command plays it again; if it comes to the same, --max-mismatch sets a limit of your own in place of this one",
    );
  }
  throw new HoneError(`${far}; the step was not taken. ${closer}, or raise --max-mismatch if you accept it`);
}

/**
 * Checks that the engine plays the adapter that was loaded.
 * @param limit limit of a step's mean distance
 * @param adapter its name for the message: "checkpoint 3"
 * @param consequence for the message: "step 3 was not taken"
 * @throws HoneError when it plays the policy before the update, or another one
 */
export function checkProbe(reading: ProbeReading | null, limit: number, adapter: string, consequence: string): void {
  if (!reading) return;
  const { after, before, n } = reading;
  const stale = before * PROBE_RATIO < after && after - before > PROBE_DIFFERENCE;
  if (!stale && after <= Math.max(PROBE_TOLERANCE * limit, before / PROBE_NEAR)) return;
  throw new HoneError(
    `${stale ? `the engine still plays the adapter before ${adapter}` : `the engine does not play the adapter of ${adapter}`}: ` +
      `on its probe the log-probabilities differ by ${after.toFixed(4)} on average from the learner's after that update, and by ${before.toFixed(4)} from those before it (n=${n}); ` +
      `${consequence}. The same command tries again${stale ? "" : "; --max-mismatch raises the limit, if another device or precision explains it"}`,
  );
}
