/**
 * The distance between engine and learner, which must be one policy. What it may be depends on device, weights and
 * precision, and on what the model learns: it is told where it has grown, and the run stops where importance weights no
 * longer correct for it. Whether the engine plays the right adapter is not judged by it (policy-slope.ts, probe.ts).
 */
import type { StepMetrics } from "../core/learn/types.js";
import type { PolicySlope, ProbeReading } from "../core/run/records.js";
import { whoPlayed } from "../core/train/earlier.js";
import type { MismatchSettings, Wrong } from "../core/train/guard.js";
import { hone } from "../core/util/program.js";
import { slopeText } from "./policy-slope.js";

type Mismatch = StepMetrics["mismatch"];

/** Steps at the beginning of a run whose mean distance is what is usual for its device, weights and precision. */
const FIRST_STEPS = 3;
/**
 * Times the usual distance that is told. The rounding stays the same, the tokens differ: runs of the tiny model (f16) had
 * steps of up to 5 times the mean of their first.
 */
const MULTIPLE = 8;
/**
 * Lower bound of what is told, in nats: first steps of few or very certain tokens may have no distance at all. Three roundings
 * (2⁻¹¹) of a cache in f16.
 */
const FLOOR = 0.0015;

/**
 * Least effective sample size of the importance weights, as a share of the tokens. Below a half, the bound of sequential Monte
 * Carlo (Liu and Chen 1995, "Blind deconvolution via sequential imputations"), their variance exceeds 1: corrections are
 * larger than what they correct, and --importance-max cuts off most of them. A pretrained model's weights of 4 and 8 bits were at
 * 0.98 to 0.99, and it learnt as with 16 (docs/results.md).
 */
export const LEAST_ESS = 0.5;

/**
 * Mean distance of a run's first step that is told, in nats, where no clean runs are recorded. Rounding was at most 0.071 with every type
 * of weights that was measured (SmolLM2 in Q4_K_M, docs/results.md); an engine that evaluated other tokens was at 0.42 to 0.46
 * (docs/trust.md).
 */
const FAR = 0.2;
/**
 * Where they are: twice the largest of clean runs. Of 16 bits and more on a CPU these were at 0.0001 to 0.006 nats, f16 on an H200 at
 * 0.0018 to 0.0042; SmolLM2 on a CPU in Q8_0 at 0.047 to 0.050, in Q4_1 at 0.050 to 0.055, in Q4_K_M at 0.067 to 0.071 (docs/results.md).
 * Faults that importance weights hide were, in f16, at 0.015 (a temperature that the learner leaves out), 0.044 and 0.15 (positions
 * after a fork).
 */
const FAR_RECORDED: readonly (readonly [backend: string, weights: RegExp, far: number])[] = [
  ["cpu", /^(F16|BF16|F32)$/i, 0.0125],
  ["cuda", /^F16$/i, 0.0125],
  ["cpu", /^Q8_0$/i, 0.1],
  ["cpu", /^Q4_1$/i, 0.11],
  ["cpu", /^Q4_K(_[SM])?$/i, 0.14],
];

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
/** ... and the two policies differ by more than rounding, in nats per token. Smaller differences are left to policy-slope.ts. */
const PROBE_DIFFERENCE = 1e-4;

/**
 * Mean distance, in nats, below which engine and learner are taken for one policy where no step of a run says what is usual:
 * weights of 8 bits and less are rounded differently by the two. On CUDA the learner computes weights other than f16 in bf16,
 * and the engine sums attention's values in f16: emulated on a CPU, that put SmolLM2-135M (30 trained layers, its own text) at
 * 0.019 nats (p99 0.12), f16 weights at 0.003. Not measured on a card.
 */
export function mismatchLimit(weightType: string, { backend }: { readonly backend?: string } = {}): number {
  const rounded = backend === "cuda" ? /^F16$/i : /^(F16|BF16|F32)$/i;
  return rounded.test(weightType) ? 0.02 : 0.05;
}

/** The distance of a first step from which on it is told, by the engine's weights and device. */
export function farMismatch(weightType: string, { backend }: { readonly backend?: string } = {}): number {
  return FAR_RECORDED.find(([on, weights]) => on === backend && weights.test(weightType))?.[2] ?? FAR;
}

/** The distance from which on it is told. @param mismatches of steps with the same numerics, oldest first; at least one */
export function noticeable(mismatches: readonly Mismatch[]): number {
  const first = mismatches.slice(0, FIRST_STEPS);
  return Math.max(FLOOR, (MULTIPLE * first.reduce((sum, { mean }) => sum + mean, 0)) / first.length);
}

/** Highest mean distance of a probe. @param mismatches of the run's steps with the numerics of now, oldest first */
export function probeLimit(
  mismatches: readonly Mismatch[],
  { maxMismatch, expectedMismatch }: Pick<MismatchSettings, "maxMismatch" | "expectedMismatch">,
): number {
  return maxMismatch ?? (mismatches.length === 0 ? expectedMismatch : noticeable(mismatches));
}

type Update = Pick<StepMetrics, "mismatch" | "importance" | "drift"> & { readonly played: PolicySlope | null };

const distanceText = ({ mean, p99, max }: Mismatch) =>
  `the log-probabilities of the sampled tokens differ by ${mean.toFixed(4)} on average (p99 ${p99.toFixed(3)}, max ${max.toFixed(3)})`;

/**
 * Checks that importance weights can correct for the distance, or that it is within the user's own limit.
 * @returns what is wrong otherwise; the step must not be committed then
 */
export function checkMismatch(
  { mismatch, drift, importance: { ess } }: Update,
  { maxMismatch, closer }: Pick<MismatchSettings, "maxMismatch" | "closer">,
): Wrong {
  if (maxMismatch === undefined ? ess >= LEAST_ESS : mismatch.mean <= maxMismatch) return undefined;
  if (maxMismatch === undefined && drift && drift.mean > mismatch.mean) {
    return `the learner is too far from the policy that played this step ahead: log-probabilities differ by ${drift.mean.toFixed(4)} on average (n=${drift.n}), with an effective sample size of ${percent(ess)} of the tokens, below ${percent(LEAST_ESS)}; the step was not taken.\nFork a checkpoint (--run NAME --fork FOLDER) with a lower --learning-rate or less --staleness, or set --max-mismatch`;
  }
  const limit =
    maxMismatch === undefined
      ? `the effective sample size is ${percent(ess)} of the tokens, below ${percent(LEAST_ESS)}`
      : `the limit is ${maxMismatch}`;
  return `engine and learner disagree: ${distanceText(mismatch)}; ${limit}; the step was not taken.\n${closer}, or ${maxMismatch === undefined ? "set a limit of your own with" : "raise"} --max-mismatch if you accept it`;
}

const percent = (share: number) => `${Number((100 * share).toFixed(1))} %`;

/**
 * What is told of a distance: where it is far from the first step on, and where it has grown, once, and again when it has doubled.
 * @param before of the run's earlier steps with the same numerics, oldest first
 * @param far see {@link farMismatch}
 */
export function mismatchNote(
  { mismatch, importance, played }: Update,
  before: readonly Mismatch[],
  far: number,
): Wrong {
  if (before.length === 0) {
    if (mismatch.mean <= far) return undefined;
    const usual =
      far === FAR
        ? "below 0.071 in every type of weights that was measured (of such weights on such a device no clean run is recorded)"
        : `below ${far} with such weights on such a device`;
    return `engine and learner differ by more than rounding explains: ${distanceText(mismatch)}, where rounding was ${usual}.\nImportance weights correct for it (effective sample size: ${percent(importance.ess)} of the tokens). Try --weights f16, and \`${hone("doctor")}\``;
  }
  const from = noticeable(before);
  const highest = Math.max(...before.map(({ mean }) => mean));
  if (mismatch.mean <= from || (highest > from && mismatch.mean <= 2 * highest)) return undefined;
  const first = before.slice(0, FIRST_STEPS);
  const usual = first.reduce((sum, { mean }) => sum + mean, 0) / first.length;
  const adapter =
    played && whoPlayed(played) === "current"
      ? `the engine plays the learner's adapter (slope ${slopeText(played)})`
      : "whether the engine plays the learner's adapter cannot be told from this step's tokens";
  return `engine and learner differ more than in the run's first steps (${usual.toFixed(4)} nats): ${distanceText(mismatch)}.\nImportance weights correct for it (effective sample size: ${percent(importance.ess)} of the tokens), and ${adapter}`;
}

/**
 * Checks that the engine plays the adapter that was loaded.
 * @param limit of the mean distance; see {@link probeLimit}
 * @param adapter its name for the message: "checkpoint 3"
 * @param consequence for the message: "step 3 was not taken"
 * @returns what is wrong, when it plays the policy before the update, or another one
 */
export function checkProbe(reading: ProbeReading | null, limit: number, adapter: string, consequence: string): Wrong {
  if (!reading) return undefined;
  const { after, before, n, moved } = reading;
  const unmoved = moved === 0;
  const stale = unmoved || (before * PROBE_RATIO < after && after - before > PROBE_DIFFERENCE);
  if (!stale && after <= Math.max(PROBE_TOLERANCE * limit, before / PROBE_NEAR)) return undefined;
  const found = unmoved ? "loading it did not change a single log-probability; they" : "the log-probabilities";
  return (
    `${stale ? `the engine still plays the adapter before ${adapter}` : `the engine does not play the adapter of ${adapter}`}: ` +
    `on its probe ${found} differ by ${nats(after)} on average from the learner's after that update, and by ${nats(before)} from those before it (n=${n}); ` +
    `${consequence}.\nThe same command tries again${stale ? "" : "; --max-mismatch raises the limit, if another device or precision explains it"}`
  );
}

/** Differences of a small update are not "0.0000". */
const nats = (value: number) => (value === 0 || value >= 0.001 ? value.toFixed(4) : value.toExponential(1));

/**
 * Whether the learner computed with the numbers that the engine plays: its adapter in the engine's type.
 *
 * @returns what is wrong, where it did not; the step must not be committed then
 */
export function checkAdapterType(
  { adapterTypes: found }: Pick<StepMetrics, "adapterTypes">,
  { numerics: { engine } }: Pick<MismatchSettings, "numerics">,
): Wrong {
  const plays = (/ adapters (\S+)$/.exec(engine)?.[1] ?? "F32").toLowerCase();
  if (found === undefined || found.some((type) => type === plays)) return undefined;
  return `the learner computed with an adapter of ${found.join(" or ")} numbers, and the engine plays it in ${plays}; the step was not taken. The same command tries again`;
}
