/** The number of threads is changed while sequences are decoded, as the governor does it. */
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, expect, it } from "vitest";
import { type NativeEngine, openAddon } from "../../src/engine/addon.js";
import { nativeSettings, newModel, prompt } from "./support.js";

const addon = await openAddon(false);
const native: NativeEngine = await addon.load(
  nativeSettings(newModel(), { threads: 2, contextPerSequence: 4096, batch: 256, ubatch: 256 }),
);
afterAll(() => native.close());

/** So many that turns of them are not over before a busy machine has let this thread change the threads once. */
const TOKENS = 4000;

async function twoSequences(
  maxTokens: number,
  meanwhile?: (over: Promise<unknown>) => Promise<void>,
): Promise<number[][]> {
  const ids = [...native.open(prompt("threads "), 2)];
  const sampling = { temperature: 1, topK: 0, topP: 1, minP: 0 };
  const common = { ...sampling, append: undefined, maxTokens, stop: new Int32Array(), limitMs: 0 };
  const turns = ids.map((id, seed) => native.generate(id, { ...common, seed }).promise);
  const over = Promise.all(turns);
  await meanwhile?.(over);
  const results = await over;
  for (const id of ids) native.closeSequence(id);
  return results.map(({ tokens }) => [...tokens]);
}

/** Waits until batches run with so many threads, and says whether turns were still running then. */
async function reached(threads: number, over: Promise<unknown>): Promise<boolean> {
  let running = true;
  void over.then(() => {
    running = false;
  });
  while (running) {
    const stats = native.stats();
    if (stats.threads === threads && stats.sequences.running > 0) return true;
    await sleep(1);
  }
  return false;
}

it("changes threads between two batches without changing a token", async () => {
  native.setThreads(1);
  const undisturbed = await twoSequences(TOKENS);
  expect(undisturbed.map((tokens) => tokens.length)).toEqual([TOKENS, TOKENS]);

  let changes = 0;
  const changed = await twoSequences(TOKENS, async (over) => {
    for (const threads of [1, 2, 1, 2, 1]) {
      native.setThreads(threads);
      if (await reached(threads, over)) changes++;
    }
  });
  // The first is none. On a busy machine the turns may be over before the last.
  expect(changes).toBeGreaterThanOrEqual(2);
  expect(changed).toEqual(undisturbed);
});

it("keeps the number over sleep and wake, and never exceeds that of its load", async () => {
  native.setThreads(1);
  await native.sleep(false);
  await native.wake();
  const alone = await twoSequences(5);
  expect(native.stats().threads).toBe(1);
  native.setThreads(64);
  expect(await twoSequences(5)).toEqual(alone);
  expect(native.stats().threads).toBe(2);
});
