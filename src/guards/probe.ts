/**
 * A checkpoint's probe: one sequence of its update's batch with the learner's log-probabilities before and after the
 * update (native/learner/probe.py writes it). The engine scores the same ids with the adapter it has loaded, and so
 * shows which of the two policies it plays.
 */
import { existsSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import type { Engine } from "../core/engine/engine.js";
import type { ProbeReading } from "../core/run/records.js";
import { HoneError } from "../core/util/errors.js";

const PROBE_FILE = "probe.json";

const probeSchema = z
  .object({
    version: z.literal(1),
    ids: z.array(z.number().int().nonnegative()),
    /** Indices in `ids` of the tokens with log-probabilities, rising; never the first token. */
    scored: z.array(z.number().int().positive()).min(1),
    /** Under the softmax at temperature 1, after and before the update. */
    logprobs: z.array(z.number()),
    before: z.array(z.number()),
  })
  .refine(({ scored, logprobs, before }) => logprobs.length === scored.length && before.length === scored.length)
  .refine(({ ids, scored }) => (scored.at(-1) as number) < ids.length);

export type Probe = z.output<typeof probeSchema>;

/**
 * The probe of an adapter's checkpoint; undefined where there is none: made by imitation.
 * @throws HoneError when the file cannot be read
 */
export function readProbe(adapter: string): Probe | undefined {
  const file = join(dirname(adapter), PROBE_FILE);
  if (!existsSync(file)) return undefined;
  try {
    return probeSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  } catch (error) {
    throw new HoneError(`${file} is not a probe of this version of hone`, { cause: error });
  }
}

/** Change of a log-probability of the learner, in nats, that an engine must show: ten roundings of a logit in f32. */
const MEASURABLE = 1e-5;

/** The engine's log-probabilities of a probe's tokens, by replica. */
export type ProbeScores = readonly (readonly number[])[];

/** Scores a probe with the current adapter of the engine. undefined when its context is too short for it. */
export async function scoreProbe(engine: Engine, { ids, scored }: Probe): Promise<ProbeScores | undefined> {
  if (ids.length > engine.info.contextPerSequence) return undefined;
  const from = scored[0] as number;
  const replicas = await scoreEverywhere(engine, ids, from);
  return replicas.map((scores) => scored.map((place) => scores[place - from] as number));
}

/** Tokens at a probe's start that show whether an adapter changes anything: it changes the scores at all positions. */
const START = 64;

/** Scores each token after the first of a probe's start, with the current adapter: at most {@link START} of them. */
export const scoreStart = (engine: Engine, { ids }: Probe): Promise<ProbeScores> =>
  scoreEverywhere(engine, ids.slice(0, Math.min(START, engine.info.contextPerSequence)), 1);

/** By replica. Requested at the same time, so that each replica gets one: every replica loads adapters separately. */
async function scoreEverywhere(engine: Engine, ids: readonly number[], from: number): Promise<ProbeScores> {
  const tokens = Int32Array.from(ids);
  const replicas = Array.from({ length: engine.info.replicas }, () => engine.score(tokens, { from }));
  return (await Promise.all(replicas)).map((scores) => [...scores]);
}

const distance = (one: readonly number[], other: readonly number[]) =>
  one.reduce((sum, value, i) => sum + Math.abs(value - (other[i] as number)), 0) / one.length;

/**
 * The engine's distances on a probe.
 * @param now scores with the checkpoint's adapter
 * @param start of its start with what the engine played before, and with the checkpoint's adapter
 */
export function readingOf(
  { logprobs, before }: Probe,
  now: ProbeScores,
  start?: { readonly earlier: ProbeScores; readonly now: ProbeScores },
): ProbeReading {
  const readings = now.map((scores) => ({ after: distance(scores, logprobs), before: distance(scores, before) }));
  const worst = readings.reduce((worst, reading) => (reading.after > worst.after ? reading : worst));
  const measurable = logprobs.some((value, i) => Math.abs(value - (before[i] as number)) >= MEASURABLE);
  // Replicas may have got the probe in another order.
  const moved =
    start && measurable
      ? Math.min(...start.now.flatMap((one) => start.earlier.map((other) => distance(one, other))))
      : null;
  return { ...worst, n: logprobs.length, moved };
}
