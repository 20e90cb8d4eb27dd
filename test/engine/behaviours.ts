/**
 * What the engine does on every device, as bodies of tests: engine.test.ts, generate.test.ts and the others call them on
 * a CPU, engine.gpu.test.ts on a GPU. `rounding`: log-probabilities that differ by more are not the same computation.
 */
import { execFile } from "node:child_process";
import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect } from "vitest";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import type { GenerateOptions, Sequence } from "../../src/core/engine/sequence.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { concat, largestDifference, prompt } from "./support.js";
import type { Reference } from "./transformers.js";

const never: number[] = [];
const turn = (maxTokens: number, seed: number) => ({ maxTokens, sampling: { seed }, stop: never });

/**
 * Scores; on a GPU of all tokens and some that follow, which change nothing: so few kernels serve their number
 * (support/gpu.ts).
 */
export async function scores(engine: LocalEngine, tokens: Int32Array, from: number): Promise<Float32Array> {
  if (engine.info.gpu === false) return await engine.score(tokens, { from });
  const rows = 32 * Math.ceil((tokens.length - 1) / 32);
  const all = await engine.score(concat(tokens, new Int32Array(rows + 1 - tokens.length)));
  return all.slice(from - 1, tokens.length - 1);
}

export async function evaluatesOnlyWhatIsAppended(
  engine: LocalEngine,
  length: number,
  rounding: number,
): Promise<void> {
  const start = prompt("x".repeat(length));
  const sequence = engine.open(start);
  const one = await sequence.generate(turn(8, 5));
  const before = engine.stats();
  const append = prompt("a tool's answer");
  const two = await sequence.generate({ append, ...turn(8, 5) });
  // The last sampled token was not evaluated yet.
  expect(engine.stats().prefilled - before.prefilled).toBe(append.length + 1);
  expect(sequence.length).toBe(start.length + 8 + append.length + 8);
  const all = concat(start, one.tokens, append, two.tokens);
  expect(largestDifference(two.logprobs, await scores(engine, all, all.length - 8))).toBeLessThan(rounding);
  sequence.close();
}

/** @param limits what ends the turn; called when it has begun to decode, or before it begins */
async function endsEarly(
  engine: LocalEngine,
  stop: "cancelled" | "deadline",
  limits: (decoding: Promise<void>) => Pick<GenerateOptions, "signal" | "seconds">,
  rounding: number,
): Promise<void> {
  const start = prompt("a turn that ends too early");
  const sequence = engine.open(start);
  const before = engine.stats().decoded;
  const decoding = (async () => {
    while (engine.stats().decoded === before) await new Promise((resolve) => setTimeout(resolve, 1));
  })();
  const maxTokens = engine.info.contextPerSequence - start.length - 8;
  const result = await sequence.generate({ ...turn(maxTokens, 7), ...limits(decoding) });
  expect(result.stop).toBe(stop);
  expect(result.tokens.length).toBeGreaterThan(0);
  expect(result.tokens.length).toBeLessThan(maxTokens);
  expect(sequence.length).toBe(start.length + result.tokens.length);
  const more = await sequence.generate(turn(3, 7));
  const scored = await scores(engine, concat(start, result.tokens, more.tokens), start.length);
  expect(largestDifference([...result.logprobs, ...more.logprobs], scored)).toBeLessThan(rounding);
  sequence.close();
}

export function keepsWhatItHasWhenCancelled(engine: LocalEngine, rounding: number): Promise<void> {
  const limits = (decoding: Promise<void>) => {
    const controller = new AbortController();
    void decoding.then(() => controller.abort());
    return { signal: controller.signal };
  };
  return endsEarly(engine, "cancelled", limits, rounding);
}

/** The limit is what a turn of a tenth of the context used just before: a token is sampled by then, and not all. */
export async function keepsWhatItHasAtItsDeadline(engine: LocalEngine, rounding: number): Promise<void> {
  const measured = engine.open(prompt("a turn that ends too early"));
  const { usedSeconds } = await measured.generate(turn(Math.floor(engine.info.contextPerSequence / 10), 7));
  measured.close();
  await endsEarly(engine, "deadline", () => ({ seconds: usedSeconds }), rounding);
}

export async function evaluatesAPromptOnce(
  engine: LocalEngine,
  { members, length }: { members: number; length: number },
  rounding: number,
): Promise<void> {
  const start = prompt("p".repeat(length));
  const before = engine.stats();
  const turns = engine.openGroup(start, members).map(async (sequence: Sequence, seed) => {
    const result = await sequence.generate(turn(5 + seed, seed));
    sequence.close();
    return result;
  });
  const results = await Promise.all(turns);
  const after = engine.stats();
  expect(after.reused - before.reused).toBe((members - 1) * (length - 1));
  // The last token of a prompt is evaluated by each member; so is, here and there, one that closes a gap.
  expect(after.prefilled - before.prefilled).toBeLessThanOrEqual(length - 1 + 2 * members);
  expect(results.map(({ tokens }) => tokens.length)).toEqual(Array.from({ length: members }, (_, seed) => 5 + seed));
  for (const { tokens, logprobs } of results) {
    const scored = await scores(engine, concat(start, tokens), start.length);
    expect(largestDifference(logprobs, scored)).toBeLessThan(rounding);
  }
}

/** @param asleep what else there is to see then */
export async function sleepsAndWakes(
  engine: LocalEngine,
  weights: boolean,
  rounding: number,
  asleep: () => void = () => undefined,
): Promise<void> {
  const start = prompt("before sleep ");
  const sequence = engine.open(start);
  const first = await sequence.generate(turn(10, 1));
  const running = engine.open(start).generate(turn(100, 1));
  await engine.sleep({ weights });
  expect((await running).stop).toBe("length");
  expect(engine.memory()).toMatchObject(weights ? { kv: 0, weights: 0 } : { kv: 0 });
  await expect(sequence.generate(turn(1, 1))).rejects.toThrow("the engine sleeps");
  await expect(engine.score(start)).rejects.toThrow("the engine sleeps");
  expect(engine.tokenize("the", { special: false }).length).toBeGreaterThan(0);
  await engine.sleep({ weights });
  asleep();

  await engine.wake();
  await engine.wake();
  expect(engine.memory().kv).toBeGreaterThan(0);
  const second = await sequence.generate(turn(10, 1));
  const scored = await scores(engine, concat(start, first.tokens, second.tokens), start.length);
  expect(largestDifference([...first.logprobs, ...second.logprobs], scored)).toBeLessThan(rounding);
  sequence.close();
}

/**
 * Puts one adapter on again and again, each time from a file of another name, mostly with a turn under way.
 *
 * @param after called after so many changes
 */
export async function changesAdapter(
  engine: LocalEngine,
  adapter: string,
  changes: number,
  after: (changes: number) => void | Promise<void>,
): Promise<void> {
  const folder = mkdtempSync(join(tmpdir(), "hone-swaps-"));
  try {
    for (let change = 1; change <= changes; change++) {
      const version = join(folder, `${change}.gguf`);
      copyFileSync(adapter, version);
      const sequence = engine.open(prompt("under a change"));
      const under = sequence.generate(turn(4, change));
      await engine.useAdapter(version);
      await under;
      sequence.close();
      rmSync(version);
      await after(change);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
}

/** @param beside another engine of the same model, under another name */
export async function hasAnAdapterOfItsOwn(
  engine: LocalEngine,
  beside: LocalEngine,
  adapter: string,
  rounding: number,
): Promise<void> {
  const tokens = prompt("the same text for both of them");
  const weights = engine.memory().weights;
  expect(beside.memory().weights).toBe(weights);
  const before = await scores(engine, tokens, 1);
  await engine.useAdapter(adapter);
  expect(beside.adapter).toBeNull();
  const [adapted, plain] = await Promise.all([scores(engine, tokens, 1), scores(beside, tokens, 1)]);
  expect(largestDifference(plain, before)).toBeLessThan(rounding);
  expect(largestDifference(adapted, before)).toBeGreaterThan(10 * rounding);
  await engine.useAdapter(null);
}

/**
 * @param held bytes that the engine's device or process holds now
 * @param play touches the weights, where a device takes them at their first use
 */
export async function givesMemoryBack(
  engine: LocalEngine,
  bytes: { readonly kv: number; readonly weights: number },
  held: () => number,
  play: () => Promise<void>,
): Promise<void> {
  await play();
  const awake = held();
  for (const weights of [false, true]) {
    const given = bytes.kv + (weights ? bytes.weights : 0);
    await engine.sleep({ weights });
    const asleep = held();
    // JavaScript's own heap moves by some tens of MB.
    expect(awake - asleep).toBeGreaterThan(0.8 * given);
    if (!weights) expect(awake - asleep).toBeLessThan(bytes.kv + 0.8 * bytes.weights);
    await engine.wake();
    await play();
    expect(held() - asleep).toBeGreaterThan(0.8 * given);
  }
}

/** On a CPU: more sequences than slots. */
export const crowd = { atOnce: 10, members: 4, tokens: 60, step: 1 };

/**
 * Workers are terminated in mid-decode beside a thread that goes on playing, in a process of its own: if it crashed, this
 * would fail.
 *
 * @param job `members`: sequences of a worker; `tokens`: of a turn of the thread that goes on; `step`: milliseconds that
 * each of ten workers is left to decode longer than the one before
 */
export async function outlivesItsWorkers(
  job: { workers: number; atOnce: number; members: number; tokens: number; step: number },
  engine: LocalEngineOptions,
  rounding: number,
): Promise<void> {
  const door = join(packageRoot, "dist/src/engine/factory.js");
  const script = join(packageRoot, "test/engine/termination.mjs");
  const { stdout } = await promisify(execFile)(process.execPath, [script, JSON.stringify({ ...job, door, engine })]);
  const { stops, worst, sequences } = JSON.parse(stdout);
  expect(stops).toEqual(["length"]);
  expect(worst).toBeLessThan(rounding);
  expect(sequences).toMatchObject({ open: 0, running: 0, queued: 0 });
}

/** What transformers says is what the engine says, but for rounding. */
export function expectWithin(ways: ReturnType<Reference["ways"]>): void {
  for (const { way, pairs, count, mean, max, limit } of ways) {
    expect(pairs, way).toHaveLength(count);
    expect(mean, way).toBeLessThanOrEqual(limit.mean);
    expect(max, way).toBeLessThanOrEqual(limit.max);
  }
}

/**
 * Draws the same turns in an engine whose host samples and in one that draws on the device. Both compute the same logits
 * for the same tokens, so the first token that differs must be one where the uniform number is at the boundary of two
 * tokens: what follows it is another text, which is not compared.
 */
export async function drawsAsTheHost(
  host: LocalEngine,
  device: LocalEngine,
  { temperatures, tokens, members }: { temperatures: number[]; tokens: number; members: number },
  bound = 1e-5,
): Promise<{ compared: number; differing: number; largest: number }> {
  const found = { compared: 0, differing: 0, largest: 0 };
  for (const temperature of temperatures) {
    const play = async (engine: LocalEngine) => {
      const group = engine.openGroup(prompt("a prompt of the group, "), members);
      // One after the other: who shares a batch would change the logits' rounding.
      const played = [];
      for (const [seed, member] of group.entries()) {
        played.push(await member.generate({ maxTokens: tokens, sampling: { seed, temperature }, stop: never }));
        member.close();
      }
      return played;
    };
    const [expected, drawn] = [await play(host), await play(device)];
    for (const [i, one] of drawn.entries()) {
      const other = expected[i] as (typeof drawn)[number];
      const first = one.tokens.findIndex((token, at) => token !== other.tokens[at]);
      const same = first === -1 ? tokens : first;
      if (first !== -1) found.differing++;
      found.compared += same;
      const gap = largestDifference(one.logprobs.slice(0, same), other.logprobs.slice(0, same));
      found.largest = Math.max(found.largest, gap);
    }
  }
  expect(found.largest).toBeLessThan(bound);
  // A running sum in f32 is off by a millionth: so often a number falls between its boundary and the exact one.
  expect(found.differing).toBeLessThanOrEqual(1);
  return found;
}

/** All tokens were drawn on the device, and 12 bytes of each row were copied; padding at most trebles the rows. */
export function countsOfDrawing(engine: LocalEngine): void {
  const { decoded, drawnOnDevice, copiedBytes } = engine.stats();
  expect(drawnOnDevice).toBe(decoded);
  expect(copiedBytes).toBeGreaterThanOrEqual(12 * decoded);
  expect(copiedBytes).toBeLessThanOrEqual(3 * 12 * decoded);
}
