/**
 * `sampling: "device"` on the CPU's own backend, where llama.cpp computes the same operations as on a GPU: what is drawn
 * is what the host draws from the same logits.
 */
import { describe, expect, it } from "vitest";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import type { Generated } from "../../src/core/engine/sequence.js";
import { loadEngine } from "../../src/engine/factory.js";
import { modelFile } from "../../src/engine/models.js";
import { countsOfDrawing, drawsAsTheHost } from "./behaviours.js";
import { adapterPath, close, concat, largestDifference, newModel, prompt, ROUNDING, testEngine } from "./support.js";

const shapes: [string, Partial<LocalEngineOptions>][] = [
  ["a pool of KV", { pooledKv: true, steadyShapes: true }],
  ["a pool without padding", { pooledKv: true, steadyShapes: false }],
  ["a KV buffer for each", { pooledKv: false, steadyShapes: false }],
  ["a KV buffer for each, padded", { pooledKv: false, steadyShapes: true }],
  ["lanes", { lanes: 2, threads: 2, sequences: 8 }],
];

async function pair(more: Partial<LocalEngineOptions>, model = newModel()): Promise<[LocalEngine, LocalEngine]> {
  const [host, device] = (["host", "device"] as const).map((sampling) =>
    testEngine({ ...more, model, name: sampling, sampling }),
  ) as [Promise<LocalEngine>, Promise<LocalEngine>];
  return [await host, await device];
}

describe.each(shapes)("with %s", (_, shape) => {
  it("the device draws the host's tokens, without copying logits", async () => {
    const [host, device] = await pair(shape);
    expect([host.info.compute.sampling, device.info.compute.sampling]).toEqual(["host", "device"]);
    // Rows that are computed alike have the same bits in both engines; rounding is then the drawing's alone.
    await drawsAsTheHost(host, device, { temperatures: [1, 0.7], tokens: 160, members: 4 });
    countsOfDrawing(device);
    await Promise.all([host, device].map(close));
  });

  it("groups of unequal turns, with tools' answers, are those of the host", async () => {
    const [host, device] = await pair({ ...shape, sequences: Math.max(4, shape.sequences ?? 0) });
    const plays = async (engine: LocalEngine) => {
      const group = engine.openGroup(prompt("a prompt that all share, longer than a batch "), 7);
      return await Promise.all(
        group.map(async (member, seed) => {
          const turn = { maxTokens: 6 + 5 * seed, sampling: { seed }, stop: [] };
          const one = await member.generate(turn);
          const two = await member.generate({ ...turn, append: prompt("an answer ".repeat(1 + (seed % 3))) });
          member.close();
          return { tokens: [...one.tokens, ...two.tokens], logprobs: [...one.logprobs, ...two.logprobs] };
        }),
      );
    };
    const [expected, drawn] = [await plays(host), await plays(device)];
    // Who shares a batch depends on time, so log-probabilities are equal but for rounding.
    const same = drawn.filter((one, i) => one.tokens.join() === expected[i]?.tokens.join());
    expect(same.length).toBeGreaterThan(drawn.length / 2);
    for (const [i, one] of drawn.entries()) {
      if (!same.includes(one)) continue;
      expect(largestDifference(one.logprobs, expected[i]?.logprobs ?? [])).toBeLessThan(ROUNDING);
    }
    countsOfDrawing(device);
    await Promise.all([host, device].map(close));
  });
});

it.each([true, false])("passes of a prompt alone copy no logits of padding: pooled %s", async (pooledKv) => {
  const [host, device] = await pair({ pooledKv, steadyShapes: true, ubatch: 32 });
  const turn = { maxTokens: 20, sampling: { seed: 3 }, stop: [] };
  const start = prompt("a prompt of several passes ".repeat(8));
  const plays = async (engine: LocalEngine) => {
    const group = engine.openGroup(prompt("a short one"), 4);
    await Promise.all(group.map((member) => member.generate(turn)));
    for (const member of group) member.close();
    const { tokens } = await engine.open(start).generate(turn);
    return [...tokens];
  };
  expect(await plays(device)).toEqual(await plays(host));
  countsOfDrawing(device);
  await Promise.all([host, device].map(close));
});

describe("what the device cannot draw", () => {
  const turn = (more: object) => ({ maxTokens: 12, sampling: { seed: 5, ...more }, stop: [] });

  it.each([{ temperature: 0 }, { temperature: 0.1 }, { topK: 5 }, { topP: 0.9 }, { minP: 0.05 }])(
    "the host samples: %j",
    async (sampling) => {
      const [host, device] = await pair({});
      const start = prompt("a prompt");
      const [one, two] = await Promise.all([host, device].map((engine) => engine.open(start).generate(turn(sampling))));
      expect([...(two as Generated).tokens]).toEqual([...(one as Generated).tokens]);
      expect([...(two as Generated).logprobs]).toEqual([...(one as Generated).logprobs]);
      expect(device.stats().drawnOnDevice).toBe(0);
      await Promise.all([host, device].map(close));
    },
  );

  it("is scored, also beside turns, which go on where they were", async () => {
    const [host, device] = await pair({ pooledKv: true, steadyShapes: true });
    const start = prompt("a prompt of a turn");
    const scored = prompt("tokens that are given, and scored beside a turn that is sampled");
    const expected = await host.score(scored);
    const alone = await host.open(start).generate({ maxTokens: 300, sampling: { seed: 4 }, stop: [] });
    const member = device.open(start);
    const turn = member.generate({ maxTokens: 300, sampling: { seed: 4 }, stop: [] });
    const scores = await Promise.all([device.score(scored), device.score(scored, { from: 9 })]);
    const { tokens, logprobs } = await turn;
    expect(largestDifference(scores[0], expected)).toBeLessThan(ROUNDING);
    expect(largestDifference(scores[1], expected.slice(8))).toBeLessThan(ROUNDING);
    const own = await host.score(concat(start, tokens), { from: start.length });
    expect(largestDifference(logprobs, own)).toBeLessThan(ROUNDING);
    const first = tokens.findIndex((token, i) => token !== alone.tokens[i]);
    expect(first === -1 || first > 20).toBe(true);
    const { drawnOnDevice, decoded } = device.stats();
    expect(drawnOnDevice).toBeGreaterThan(0);
    expect(drawnOnDevice).toBeLessThan(decoded);
    await Promise.all([host, device].map(close));
  });

  it("are tokens with the likeliest ones beside them", async () => {
    const [host, device] = await pair({});
    const heard: number[] = [];
    const limits = { maxTokens: 5, sampling: { seed: 5 }, stop: [] };
    const one = await host.open(prompt("a prompt")).generate(limits);
    const two = await device
      .open(prompt("a prompt"))
      .generate({ ...limits, likeliest: 2, onToken: ({ token }) => heard.push(token) });
    expect([heard, [...two.tokens]]).toEqual([[...one.tokens], [...one.tokens]]);
    expect(device.stats().drawnOnDevice).toBe(0);
    await Promise.all([host, device].map(close));
  });
});

it("adapters, sleep and wake with fewer sequences keep drawing", async () => {
  const [host, device] = await pair({ sequences: 4 });
  const plays = async (engine: LocalEngine) => {
    const { tokens } = await engine
      .open(prompt("a prompt"))
      .generate({ maxTokens: 30, sampling: { seed: 8 }, stop: [] });
    return [...tokens];
  };
  const steps: ((engine: LocalEngine) => Promise<void>)[] = [
    async () => undefined,
    (engine) => engine.useAdapter(adapterPath("drawn")),
    (engine) => engine.sleep({ weights: true }).then(() => engine.wake({ sequences: 2 })),
    (engine) => engine.useAdapter(null),
    (engine) => engine.sleep().then(() => engine.wake({ sequences: 4 })),
  ];
  const seen = new Set<string>();
  for (const step of steps) {
    await Promise.all([host, device].map(step));
    const expected = await plays(host);
    expect(await plays(device)).toEqual(expected);
    seen.add(expected.join());
  }
  expect(seen.size).toBe(2);
  countsOfDrawing(device);
  await Promise.all([host, device].map(close));
});

it("the tiny model's tokens are those of the host", async () => {
  const more = { gpu: false, threads: 1, model: modelFile("tiny"), sequences: 8, contextPerSequence: 512 } as const;
  const host = await loadEngine({ ...more, name: "host" });
  const device = await loadEngine({ ...more, name: "device", sampling: "device" });
  await drawsAsTheHost(host, device, { temperatures: [1, 0.7], tokens: 128, members: 8 });
  countsOfDrawing(device);
  await Promise.all([host.close(), device.close()]);
});

describe("sampling", () => {
  it("falls back to the host, and says why, where a batch has more numbers than the vocabulary", async () => {
    const lines: string[] = [];
    const more = { model: newModel(), gpu: false, threads: 1, sequences: 4, contextPerSequence: 64 } as const;
    const engine = await loadEngine({ ...more, sampling: "device" }, (line) => lines.push(line));
    expect([engine.info.compute.sampling, lines]).toEqual(["device", []]);
    await engine.close();
    const many = await loadEngine({ ...more, model: newModel(), sequences: 120, sampling: "device" }, (line) =>
      lines.push(line),
    );
    expect(many.info.compute.sampling).toBe("host");
    expect(lines).toEqual([
      "tokens are sampled on the host, not on the device: the vocabulary of 261 tokens is too small for 120 rows",
    ]);
    await many.close();
  });
});
