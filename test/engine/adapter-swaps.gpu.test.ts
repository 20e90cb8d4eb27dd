/** Many changes of an adapter on a GPU. A file of its own, so that it runs beside the others where devices allow that. */
import { expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import { loadEngine } from "../../src/engine/factory.js";
import { few, gpu, held } from "../support/gpu.js";
import { changesAdapter, scores } from "./behaviours.js";
import { largestDifference, prompt } from "./support.js";

const model = modelPath("qwen3-tiny-f16.gguf");
const adapter = modelPath("qwen3-tiny-adapter-1.gguf");
const other = modelPath("qwen3-tiny-adapter-2.gguf");

// A software GPU takes two seconds for each, and its memory is this process's, of which the kernel says how much is resident.
const CHANGES = gpu.software ? 20 : 200;

it(`an adapter can be changed ${CHANGES} times: the scores are those of before, and nothing is kept`, async () => {
  // Each change warms up with a full pass: of two rows, whose kernels decoding has.
  const engine = await loadEngine({ ...few, ubatch: few.sequences, model, contextPerSequence: 512 });
  const tokens = prompt("the scores of these tokens");
  const score = () => scores(engine, tokens, 1);
  const without = await score();
  await engine.useAdapter(adapter);
  const first = await score();
  const effect = largestDifference(first, without);
  expect(effect).toBeGreaterThan(0.1);
  let warm = 0;
  await changesAdapter(engine, other, CHANGES, async (change) => {
    if (change % 20 !== 0) return;
    await engine.useAdapter(adapter);
    expect(largestDifference(await score(), first)).toBeLessThan(effect / 100);
    await engine.useAdapter(null);
    expect(largestDifference(await score(), without)).toBeLessThan(effect / 100);
    globalThis.gc?.();
    // By then allocators have what they need.
    if (change === 60) warm = held(engine);
  });
  // An adapter has 0.6 MB: 140 that were kept would come to 84 MB.
  if (!gpu.software) expect(held(engine) - warm).toBeLessThan(30e6);
  await engine.close();
});
