/** Shared measurements of rows. Times are from `performance.now()`, in milliseconds. */
import { basename } from "node:path";
import type { EngineStats, LocalEngine } from "../src/core/engine/engine.js";
import { HoneError } from "../src/core/util/errors.js";
import { Random } from "../src/core/util/random.js";
import type { BenchContext, Pair, Row } from "./row.js";

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  const upper = sorted[middle];
  if (upper === undefined) throw new RangeError("the median of nothing");
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[middle - 1] ?? upper)) / 2;
}

/**
 * Measures both sides alternately, so that other load affects both.
 * @param better whether more or less of the unit is better
 */
export async function compare(
  context: BenchContext,
  row: Omit<Row, "ours" | "theirs" | "ratio" | "rounds">,
  better: "more" | "less",
  sides: { ours: () => Promise<number>; theirs: () => Promise<number> },
): Promise<Row> {
  const rounds: Pair[] = [];
  for (let round = 0; round < context.rounds; round++) {
    // The first side of a round has colder caches, so the order alternates.
    const oursFirst = round % 2 === 0;
    const first = await (oursFirst ? sides.ours() : sides.theirs());
    const second = await (oursFirst ? sides.theirs() : sides.ours());
    rounds.push(oursFirst ? { ours: first, theirs: second } : { ours: second, theirs: first });
  }
  const ratio = ({ ours, theirs }: Pair) => (better === "more" ? ours / theirs : theirs / ours);
  const result: Row = {
    ...row,
    ours: median(rounds.map(({ ours }) => ours)),
    theirs: median(rounds.map(({ theirs }) => theirs)),
    ratio: median(rounds.map(ratio)),
    rounds,
  };
  context.log(describe(result));
  return result;
}

export function describe(row: Row): string {
  const number = (value: number) => (value >= 100 ? value.toFixed(0) : value.toPrecision(3));
  const count = row.sequences === null ? "" : ` x${row.sequences}`;
  const theirs = row.theirs === null ? "" : `, theirs ${number(row.theirs)}, ratio ${row.ratio?.toFixed(3)}`;
  return `${row.name}${count} ${row.model}: ours ${number(row.ours)} ${row.unit}${theirs}`;
}

/** Token ids in place of a prompt: ordinary tokens without end-of-text. */
export function randomTokens(engine: LocalEngine, count: number, seed: number): Int32Array {
  const random = new Random("bench", seed);
  const control = new Set(engine.info.controlTokens.values());
  return Int32Array.from({ length: count }, () => {
    for (;;) {
      const token = random.integer(0, engine.info.vocabularySize - 1);
      if (!control.has(token)) return token;
    }
  });
}

export interface DecodeSettings {
  readonly sequences: number;
  /** Tokens of each prompt; every sequence has its own. */
  readonly prompt: number;
  /** Number of tokens that each sequence samples in the measured time. */
  readonly tokens: number;
}

/**
 * Tokens per second of the decode phase: prompts are evaluated before. Includes sampling at temperature 1 and
 * log-probabilities, as in a rollout.
 */
export async function decodeSpeed(engine: LocalEngine, settings: DecodeSettings): Promise<number> {
  const sequences = Array.from({ length: settings.sequences }, (_, seed) =>
    engine.open(randomTokens(engine, settings.prompt, seed)),
  );
  const turn = (maxTokens: number) =>
    Promise.all(sequences.map((one, seed) => one.generate({ maxTokens, sampling: { seed }, stop: [] })));
  try {
    await turn(1);
    const start = performance.now();
    const results = await turn(settings.tokens);
    const seconds = (performance.now() - start) / 1000;
    const tokens = results.reduce((sum, { tokens }) => sum + tokens.length, 0);
    if (tokens !== settings.sequences * settings.tokens) throw new HoneError(`${tokens} tokens came of a decode bench`);
    return tokens / seconds;
  } finally {
    for (const sequence of sequences) sequence.close();
  }
}

let promptsMade = 0;

/**
 * Tokens per second of prompts alone: each sequence evaluates one that nobody else has, and samples one token.
 * `settings.tokens` is not used.
 */
export async function promptSpeed(engine: LocalEngine, settings: DecodeSettings): Promise<number> {
  const sequences = Array.from({ length: settings.sequences }, () =>
    engine.open(randomTokens(engine, settings.prompt, --promptsMade)),
  );
  try {
    const before = engine.stats().prefilled;
    const start = performance.now();
    await Promise.all(sequences.map((one, seed) => one.generate({ maxTokens: 1, sampling: { seed }, stop: [] })));
    const seconds = (performance.now() - start) / 1000;
    return (engine.stats().prefilled - before) / seconds;
  } finally {
    for (const sequence of sequences) sequence.close();
  }
}

/** Share of an engine's busy time outside of llama_decode. */
export function shares(before: EngineStats, after: EngineStats): { sampling: number; scheduling: number } {
  const spent = (part: "decode" | "sampling" | "scheduling") => after.seconds[part] - before.seconds[part];
  const busy = spent("decode") + spent("sampling") + spent("scheduling");
  return { sampling: spent("sampling") / busy, scheduling: spent("scheduling") / busy };
}

/** Length of decode rows by device: a GPU needs more tokens for a measurement, a CPU would take minutes for them. */
export function decodeLength(engine: LocalEngine): { prompt: number; tokens: number } {
  if (engine.info.gpu !== false) return { prompt: 256, tokens: 256 };
  return { prompt: 32, tokens: engine.info.sequences > 8 ? 32 : 64 };
}

export const modelName = (path: string) => basename(path);
