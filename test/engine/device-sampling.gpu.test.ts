/** Tokens drawn where the logits are, on a GPU: what its engine's host draws from the same logits, but for rounding. */
import { afterAll, beforeAll, expect, it } from "vitest";
import { modelPath } from "../../bench/models.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { loadEngine } from "../../src/engine/factory.js";
import { few, gpu } from "../support/gpu.js";
import { countsOfDrawing, drawsAsTheHost } from "./behaviours.js";
import { concat, largestDifference, prompt } from "./support.js";

const model = modelPath("qwen3-tiny-f16.gguf");
const adapter = modelPath("qwen3-tiny-adapter-1.gguf");
/** Passes of one or two rows, for which llvmpipe has few kernels to compile. */
const fewer = gpu.software ? { ubatch: few.sequences } : {};
/** Its kernels take llvmpipe a minute, and are those of engine.gpu.test.ts. */
const withAdapter = !gpu.software;
/** A device's exponentials and logarithms are off by a few units in the last place. */
const ROUNDING = 1e-4;

let host: LocalEngine;
let device: LocalEngine;
beforeAll(async () => {
  const more = { ...few, ...fewer, model, contextPerSequence: 512 };
  host = await loadEngine({ ...more, name: "host", sampling: "host" });
  device = await loadEngine({ ...more, name: "device", sampling: "device" });
});
afterAll(async () => {
  await host?.close();
  await device?.close();
});

it("the engine says where it draws", () => {
  expect([host.info.compute.sampling, device.info.compute.sampling]).toEqual(["host", "device"]);
});

it("tokens are the host's, and no logits are copied", async () => {
  const temperatures = [1, 0.7];
  const { compared, differing, largest } = await drawsAsTheHost(
    host,
    device,
    { temperatures, tokens: gpu.software ? 32 : 128, members: 4 },
    ROUNDING,
  );
  countsOfDrawing(device);
  console.log(`${compared} tokens drawn on ${gpu.name} as on the host, ${differing} turns parted,
  log-probabilities at most ${largest.toExponential(1)} apart`);
});

it("two rows at once draw with their own numbers", async () => {
  const group = device.openGroup(prompt("a prompt of both"), 2);
  const turns = await Promise.all(
    group.map((member, seed) =>
      member.generate({ maxTokens: 40, sampling: { seed, temperature: 0.8 + seed }, stop: [] }),
    ),
  );
  expect([...(turns[0]?.tokens ?? [])]).not.toEqual([...(turns[1]?.tokens ?? [])]);
  for (const { tokens, logprobs } of turns.slice(1)) expect(tokens).toHaveLength(logprobs.length);
  for (const member of group) member.close();
  countsOfDrawing(device);
});

it("scores are the host's, beside turns as well", async () => {
  const scored = prompt("given tokens, 33 of them, are scored");
  const start = prompt("a prompt of a turn");
  const sequence = device.open(start);
  const turn = sequence.generate({ maxTokens: 60, sampling: { seed: 2 }, stop: [] });
  const [scores, { tokens, logprobs }] = await Promise.all([device.score(scored), turn]);
  sequence.close();
  const expected = await host.score(scored);
  const own = await host.score(concat(start, tokens), { from: start.length });
  // Passes of other shapes: rounding of 16-bit KV and products.
  expect(largestDifference(scores, expected)).toBeLessThan(0.05);
  expect(largestDifference(logprobs, own)).toBeLessThan(0.05);
});

it("adapters, sleep and wake keep drawing", async () => {
  const draws = async (engine: LocalEngine) => {
    const sequence = engine.open(prompt("a prompt"));
    const { tokens } = await sequence.generate({ maxTokens: 24, sampling: { seed: 6 }, stop: [] });
    sequence.close();
    return [...tokens];
  };
  const before = await draws(host);
  for (const engine of [host, device]) {
    if (withAdapter) await engine.useAdapter(adapter);
    await engine.sleep({ weights: true });
  }
  for (const engine of [host, device]) await engine.wake({ sequences: 1 });
  const drawn = device.stats().drawnOnDevice;
  const expected = await draws(host);
  expect(await draws(device)).toEqual(expected);
  if (withAdapter) expect(expected).not.toEqual(before);
  expect(device.stats().drawnOnDevice - drawn).toBe(24);
  for (const engine of [host, device]) await engine.useAdapter(null);
});
