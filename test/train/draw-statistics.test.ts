/** Whether tokens are drawn with the probabilities that are recorded: the bound, and the addon's own sampler. */
import { describe, expect, it } from "vitest";
import { addDraws } from "../../src/core/engine/evaluated.js";
import type { DrawStatistics } from "../../src/core/engine/sequence.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { creditGroups, drawsOf } from "../../src/core/train/credit.js";
import { Random } from "../../src/core/util/random.js";
import { loadAddon } from "../../src/engine/addon.js";
import { checkDrawStatistics, drawsBound } from "../../src/guards/draws.js";
import { trajectoryOf } from "./support/fakes.js";

const addon = loadAddon();
const options = { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 } as const;
const plain = { temperature: 1, topK: 0, topP: 1, minP: 0 };

const logitsOf = (seed: number, size: number, spread: number) => {
  const random = new Random("draws", seed);
  return Float32Array.from({ length: size }, () => spread * (random.float() + random.float() + random.float() - 1.5));
};

/** Mean and variance of -log p less the entropy, from the definition in f64. */
function exact(logits: Float32Array, temperature: number) {
  const peak = Math.max(...logits);
  const scaled = Array.from(logits, (logit) => (logit - peak) / temperature);
  const total = Math.log(scaled.reduce((sum, one) => sum + Math.exp(one), 0));
  const logprobs = scaled.map((one) => one - total);
  const entropy = -logprobs.reduce((sum, one) => sum + Math.exp(one) * one, 0);
  return { logprobs, entropy, variance: logprobs.reduce((sum, one) => sum + Math.exp(one) * (one + entropy) ** 2, 0) };
}

describe("the addon's sampler", () => {
  it.each([
    [1, 50, 3],
    [0.7, 3000, 12],
    [1.5, 49152, 20],
  ])("at temperature %d measures what follows from the definition, of %d tokens", (temperature, size, spread) => {
    const logits = logitsOf(size, size, spread);
    const { logprobs, entropy, variance } = exact(logits, Math.fround(temperature));
    const count = 200;
    const { tokens, draws } = addon.draw(logits, { ...plain, temperature, seed: 1 }, count);
    const wanted = [...tokens].reduce((sum, token) => sum - (logprobs[token] as number) - entropy, 0);
    expect(draws.tokens).toBe(count);
    // Rounding in f32 of exponentials, and of logits of up to 20.
    expect(Math.abs(draws.deviation - wanted)).toBeLessThan(count * 2e-5);
    expect(Math.abs(draws.variance / count - variance)).toBeLessThan(2e-4 * variance);
  });

  it("measures nothing where the distribution is truncated, or the likeliest is taken, and copes with masked logits", () => {
    const logits = logitsOf(1, 64, 6);
    for (const other of [{ topP: 0.9 }, { topK: 4 }, { minP: 0.1 }, { temperature: 0 }]) {
      expect(addon.draw(logits, { ...plain, ...other, seed: 1 }, 8).draws).toEqual({
        tokens: 0,
        deviation: 0,
        variance: 0,
      });
    }
    logits.fill(Number.NEGATIVE_INFINITY, 32);
    const { draws } = addon.draw(logits, { ...plain, seed: 1 }, 8);
    expect(Number.isFinite(draws.deviation) && draws.variance > 0).toBe(true);
  });
});

/** Draws of many distributions by inversion, with `bias` of the random number. */
function simulated(n: number, seed: number, bias = 1): DrawStatistics {
  const random = new Random("simulated", seed);
  let sum: DrawStatistics = { tokens: 0, deviation: 0, variance: 0 };
  const distributions = Array.from({ length: 20 }, (_, i) => exact(logitsOf(100 * seed + i, 40, 1 + (i % 10)), 1));
  for (let i = 0; i < n; i++) {
    const { logprobs, entropy, variance } = distributions[i % 20] as ReturnType<typeof exact>;
    let at = bias * random.float();
    const token = logprobs.findIndex((one) => {
      at -= Math.exp(one);
      return at < 0;
    });
    sum = addDraws({ tokens: 1, deviation: -(logprobs[token] ?? -9) - entropy, variance }, sum);
  }
  return sum;
}

describe("a run's draws", () => {
  it("are taken as long as they are within the bound of all steps together", () => {
    const steps = Array.from({ length: 40 }, (_, i) => simulated(500, i + 1));
    steps.forEach((now, i) => {
      expect(checkDrawStatistics(steps.slice(0, i), now)).toBeUndefined();
    });
    expect(checkDrawStatistics([null, null], null)).toBeUndefined();
    // Once in a million runs a sum leaves the bound, at whatever step; a test at one time alone would have 4.9 deviations.
    expect(drawsBound(10_000) / 100).toBeCloseTo(5.65, 1);
  });

  it("show a sampler that never draws the last 2 % of each distribution", () => {
    const all: DrawStatistics[] = [];
    let wrong: string | undefined;
    for (let i = 0; i < 100 && wrong === undefined; i++) {
      const now = simulated(1000, i + 1, 0.98);
      wrong = checkDrawStatistics(all, now);
      if (wrong === undefined) all.push(now);
    }
    expect(wrong).toMatch("unlikely ones come too seldom");
    expect(all.length).toBeGreaterThan(1);
  });

  it("end the run when likely tokens come too often, or unlikely ones", () => {
    const all = { tokens: 9000, deviation: -800, variance: 8000 };
    expect(checkDrawStatistics([all], { tokens: 10, deviation: 0, variance: 10 })).toMatch(
      /over 9010 draws of this run unlikely ones come too seldom \(by 800\.0 nats; .* the step was not taken\.\nThe same command/,
    );
    expect(checkDrawStatistics([], { ...all, deviation: 800 })).toMatch("unlikely ones come too often");
  });

  it("are those of all sequences of all rollouts that have any", () => {
    const draws = { tokens: 2, deviation: 0.5, variance: 1 };
    const tokens = { ids: [1], sampled: [0], logprobs: [0] };
    const evaluated = {
      tokens: 1,
      digest: 0,
      temperature: 1,
      truncated: false,
      foreign: false,
      seed: 1,
      drawn: [],
      draws,
    };
    const measured = { ...tokens, evaluated };
    const creditOf = (group: readonly Trajectory[]) =>
      creditGroups([group], [{ kind: "rewarded", rewards: group.map(() => 1) }], options);
    const rollouts = [
      { ...trajectoryOf({}), tokens: measured, branches: [{ messages: [], tokens: measured }] },
      { ...trajectoryOf({}), tokens },
    ];
    expect(drawsOf(creditOf(rollouts))).toEqual({ tokens: 4, deviation: 1, variance: 2 });
    expect(drawsOf(creditOf([{ ...trajectoryOf({}), tokens }]))).toBeNull();
  });
});
