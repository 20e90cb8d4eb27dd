import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { LocalEngine } from "../../src/engine/index.js";
import type { StepMetrics } from "../../src/learn/index.js";
import type { ProbeReading } from "../../src/run/records.js";
import type { Run } from "../../src/run/run.js";
import { bringCloser } from "../../src/train/closer.js";
import { train } from "../../src/train/loop.js";
import {
  checkMismatch,
  checkProbe,
  MISMATCH_FLOOR,
  MISMATCH_MULTIPLE,
  mismatchLimit,
  mismatchLimits,
} from "../../src/train/mismatch.js";
import { measureProbe, readProbe } from "../../src/train/probe.js";
import { FakeLearner, openFake, partsOf } from "./support/fakes.js";

const mismatch = (mean: number, p99: number) => ({ mean, p99, max: 2 * p99 });
const closer = bringCloser({ weightType: "Q4_K", cuda: false, hfWeights: false, model: "a.gguf" });
const auto = { maxMismatch: 0.02, calibrateMismatch: true };

/** Mean and p99 of whole runs of the tiny model, step by step, whose engine played what it should. */
const right = [
  [171e-6, 0.0031, 361e-6, 0.0071, 161e-6, 0.003, 426e-6, 0.0038, 86e-6, 0.0023, 107e-6, 0.0025, 254e-6, 0.0072],
  [155e-6, 0.0024, 61e-6, 0.0011, 227e-6, 0.0052, 306e-6, 0.0048, 265e-6, 0.0056, 791e-6, 0.0099],
  [483e-6, 0.0089, 32e-6, 0.0006, 236e-6, 0.0046, 502e-6, 0.0084, 159e-6, 0.0039, 645e-6, 0.0145],
].map((run) =>
  Array.from({ length: run.length / 2 }, (_, i) => mismatch(run[2 * i] as number, run[2 * i + 1] as number)),
);
/** Of the first of these runs, when the engine had kept the adapter of one update before. */
const stale = [
  mismatch(1.78e-3, 0.038),
  mismatch(2.4e-3, 0.065),
  mismatch(3.15e-3, 0.078),
  mismatch(3.78e-3, 0.077),
  mismatch(2.03e-3, 0.038),
];

describe("the distance between engine and learner", () => {
  it("may be larger for weights that are rounded more", () => {
    expect(["F16", "BF16", "F32"].map(mismatchLimit)).toEqual([0.02, 0.02, 0.02]);
    expect(["Q8_0", "Q4_K_M"].map(mismatchLimit)).toEqual([0.05, 0.05]);
  });

  it("stops the run above its limit, with the figures", () => {
    const limits = mismatchLimits([], auto);
    expect(() => checkMismatch(mismatch(0.02, 9), limits, closer)).not.toThrow();
    expect(() => checkMismatch({ mean: 0.0213, p99: 0.1, max: 0.5 }, limits, closer)).toThrow(
      "0.0213 on average (p99 0.100, max 0.500), the limit is 0.02; the step was not taken. Begin another run (--run NAME) with --model a.gguf --weights f16, which writes the model's q4_k weights as f16, once, or raise --max-mismatch",
    );
  });

  it.each([
    ["Q8_0", false, "--model a.gguf --weights f16"],
    ["Q4_1", true, "--model a.gguf --weights bf16"],
    ["F16", true, "--model a.gguf --weights bf16"],
    ["F16", false, "--model a.gguf --weights f32"],
    ["BF16", true, "--model a.gguf --weights f32"],
    ["F32", false, "doctor"],
  ])("is brought down, with %s weights (CUDA: %s), by %s", (weightType, cuda, remedy) => {
    const given = { weightType, cuda, hfWeights: false, model: "a.gguf" };
    expect(bringCloser(given)).toContain(remedy);
    expect(bringCloser({ ...given, hfWeights: true })).toMatch(/^Check that --hf-weights/);
    expect(bringCloser({ ...given, weightType: "Q4_1", model: "my model.gguf" })).toContain("'my model.gguf'");
  });

  it("is held to a multiple of the first step's, above a floor and below the limit", () => {
    expect(mismatchLimits([mismatch(0.001, 0.01), mismatch(0.01, 0.1)], auto)).toMatchObject({
      mean: 0.008,
      p99: 0.08,
    });
    expect(mismatchLimits([mismatch(0, 0)], auto)).toMatchObject(MISMATCH_FLOOR);
    expect(mismatchLimits([mismatch(0.01, 0.1)], auto)).toMatchObject({ mean: 0.02, p99: 0.1 * MISMATCH_MULTIPLE });
    const own = { maxMismatch: 0.1, calibrateMismatch: false };
    expect(mismatchLimits([mismatch(0.001, 0.01)], own)).toMatchObject({ mean: 0.1, p99: Number.POSITIVE_INFINITY });
  });

  it("does not stop the steps that were measured with the right adapter", () => {
    for (const run of right) {
      const limits = mismatchLimits(run, auto);
      for (const step of run) expect(() => checkMismatch(step, limits, closer)).not.toThrow();
    }
  });

  it("stops the steps that were measured with an adapter one update old", () => {
    const limits = mismatchLimits(right[0] ?? [], auto);
    for (const step of stale) {
      expect(() => checkMismatch(step, limits, closer)).toThrow(
        /in the run's first step: most likely another adapter played than the learner/,
      );
    }
    // Either figure is enough.
    expect(() => checkMismatch(mismatch(0.0001, 0.038), limits, closer)).toThrow("the limit is 0.0015 (p99 0.030)");
  });
});

describe("a reading of a probe", () => {
  const read = (after: number, before: number, limit = 0.0015) =>
    checkProbe({ after, before, n: 56 }, limit, "step 3", "it was not taken");

  it("is right when the engine is nearer to the new policy, and not far from it", () => {
    expect(() => read(0.0001, 0.0272)).not.toThrow();
    expect(() => checkProbe(null, 0, "step 3", "it was not taken")).not.toThrow();
  });

  it("is no alarm where the update was smaller than rounding", () => {
    expect(() => read(0.0002, 0.0002)).not.toThrow();
    expect(() => read(0.00021, 0.0002)).not.toThrow();
    expect(() => read(0.04, 0.0399, 0.05)).not.toThrow();
    expect(() => read(0.0002, 0.0001)).not.toThrow();
    // Neither is 0: the policy before may agree to the last bit.
    expect(() => read(1e-7, 0)).not.toThrow();
    expect(() => read(0.00009, 0)).not.toThrow();
  });

  it("is no alarm where a large update left more rounding", () => {
    expect(() => read(0.008, 0.5265)).not.toThrow();
    expect(() => read(0.03, 0.5265)).toThrow("the engine does not play the adapter of step 3");
  });

  it("tells the adapter before from another one", () => {
    expect(() => read(0.0006, 0.00002)).toThrow("the engine still plays the adapter before step 3: on its probe");
    expect(() => read(0.03, 0.02)).toThrow(
      /^the engine does not play the adapter of step 3: on its probe .*; it was not taken\. The same command tries again; --max-mismatch raises/,
    );
    expect(() => read(0.0272, 0.0001)).toThrow(
      "differ by 0.0272 on average from the learner's after that update, and by 0.0001 from those before it (n=56)",
    );
  });
});

let base: string;
const open: Run[] = [];
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "hone-mismatch-"));
});
afterEach(() => {
  for (const run of open.splice(0)) run.close();
  rmSync(base, { recursive: true });
});

describe("a probe", () => {
  const probe = { version: 1, ids: [7, 8, 9, 10], scored: [1, 3], logprobs: [-1, -2], before: [-1, -4] };
  const adapter = () => join(base, "adapter.gguf");
  const write = (content: unknown) => writeFileSync(join(base, "probe.json"), JSON.stringify(content));
  /** An engine whose lanes say these of the tokens from the second on. */
  const engineOf = (...lanes: number[][]) =>
    ({
      info: { contextPerSequence: 4, replicas: lanes.length },
      score: async (tokens: Int32Array, { from }: { from: number }) => {
        expect([[...tokens], from]).toEqual([probe.ids, 1]);
        return Float32Array.from(lanes.shift() ?? []);
      },
    }) as unknown as LocalEngine;

  it("is read where there is one, and refused where it is broken", () => {
    expect(readProbe(adapter())).toBeUndefined();
    write(probe);
    expect(readProbe(adapter())).toEqual(probe);
    for (const broken of [{ ...probe, version: 2 }, { ...probe, before: [-1] }, { ...probe, scored: [1, 4] }, {}]) {
      write(broken);
      expect(() => readProbe(adapter())).toThrow("is not a probe of this version of hone");
    }
  });

  it("is measured on every lane of the engine, of which the worst counts", async () => {
    write(probe);
    const read = readProbe(adapter());
    if (!read) throw new Error("there is a probe");
    expect(await measureProbe(engineOf([-1, 0, -2]), read)).toEqual({ after: 0, before: 1, n: 2 });
    expect(await measureProbe(engineOf([-1, 0, -2], [-1, 0, -4]), read)).toEqual({ after: 1, before: 0, n: 2 });
    const short = { ...engineOf([-1, 0, -2]), info: { contextPerSequence: 3, replicas: 1 } } as unknown as LocalEngine;
    expect(await measureProbe(short, read)).toBeNull();
  });
});

describe("a run", () => {
  const steps = { settings: { steps: 3, validateEvery: 0, keep: 9 } };
  const old: ProbeReading = { after: 0.01, before: 0.0001, n: 50 };
  const fine: ProbeReading = { after: 0.0001, before: 0.01, n: 50 };

  async function opened(): Promise<Run> {
    const run = await openFake(join(base, "run"));
    open.push(run);
    return run;
  }
  const close = () => open.pop()?.close();

  it("stops at the update whose adapter the engine does not play, and takes that step again", async () => {
    const run = await opened();
    const parts = partsOf(run, steps);
    let swaps = 0;
    // Loaded for step 1, and again after the validation of the start.
    parts.policy.reading = () => (++swaps === 3 ? old : fine);
    await expect(train(parts)).rejects.toThrow(
      /^the engine still plays the adapter before step 2: .*; the step was taken back\. The same command tries again$/,
    );
    expect(run.store.steps().map(({ step, metrics }) => [step, metrics?.probe])).toEqual([
      [0, undefined],
      [1, fine],
    ]);
    const played = parts.policy.played.length;
    close();

    const again = await opened();
    expect(again.checkpoints.list()).toEqual([1]);
    const resumed = partsOf(again, steps);
    resumed.policy.reading = () => fine;
    await train(resumed);
    expect(again.store.lastStep().step).toBe(3);
    // The rollouts of step 2 were right: none is played twice.
    expect(new Set([...parts.policy.played, ...resumed.policy.played]).size).toBe(
      played + resumed.policy.played.length,
    );
    expect(again.store.rollouts("train", 2)).toHaveLength(6);
  });

  it("that goes on looks before it plays", async () => {
    const run = await opened();
    await train(partsOf(run, { settings: { ...steps.settings, steps: 1 } }));
    close();
    const resumed = partsOf(await opened(), steps);
    resumed.policy.reading = () => old;
    await expect(train(resumed)).rejects.toThrow("the engine still plays the adapter before checkpoint 1");
    expect(resumed.policy.played).toEqual([]);
  });

  it("holds its steps to the first, also after an interruption, and does not use their rollouts again", async () => {
    const learner = (...mismatches: StepMetrics["mismatch"][]) => ({
      ...steps,
      learner: (from: string | undefined) =>
        new FakeLearner(from, undefined, () => ({ mismatch: mismatches.shift() ?? mismatch(0.001, 0.002) })),
    });
    await train(partsOf(await opened(), { ...learner(), settings: { ...steps.settings, steps: 1 } }));
    close();
    const run = await opened();
    const parts = partsOf(run, learner(mismatch(0.0081, 0.01)));
    await expect(train(parts)).rejects.toThrow(
      "differ by 0.0081 on average (p99 0.010, max 0.020), the limit is 0.008 (p99 0.030) after 0.0010 (p99 0.002)",
    );
    expect(run.store.lastStep().step).toBe(1);
    expect(run.store.rollouts("train", 2)).toEqual([]);
    close();
    const accepted = learner(mismatch(0.0081, 0.01));
    const own = { ...accepted, settings: { ...accepted.settings, calibrateMismatch: false } };
    await train(partsOf(await opened(), own));
    expect(open[0]?.store.lastStep().step).toBe(3);
  });

  it("measures later steps by the first with the same device and precision", async () => {
    const learner = (...mismatches: StepMetrics["mismatch"][]) => ({
      learner: (from: string | undefined) =>
        new FakeLearner(from, undefined, () => ({ mismatch: mismatches.shift() ?? mismatch(0.001, 0.002) })),
    });
    const on = (numerics: string, stepCount: number) => ({
      settings: { ...steps.settings, numerics: { engine: numerics, hfWeights: false }, steps: stepCount },
    });
    await train(partsOf(await opened(), { ...steps, ...learner(), ...on("cpu", 1) }));
    close();
    // Nine times the first step's: of other numerics it says nothing, but it is the measure of those that follow.
    await train(partsOf(await opened(), { ...steps, ...learner(mismatch(0.009, 0.02)), ...on("gpu", 2) }));
    close();
    await train(partsOf(await opened(), { ...steps, ...learner(mismatch(0.0195, 0.03)), ...on("gpu", 3) }));
    close();
    const back = partsOf(await opened(), { ...steps, ...learner(mismatch(0.009, 0.02)), ...on("cpu", 4) });
    await expect(train(back)).rejects.toThrow("after 0.0010 (p99 0.002) in the run's first step");
  });

  it("keeps the rollouts of a step that is refused for its configuration, not for its growth", async () => {
    const learner = (from: string | undefined) =>
      new FakeLearner(from, undefined, () => ({ mismatch: mismatch(0.021, 0.1) }));
    const run = await opened();
    await expect(train(partsOf(run, { ...steps, learner }))).rejects.toThrow(
      "or raise --max-mismatch if you accept it",
    );
    const kept = run.store.rollouts("train", 1).length;
    expect(kept).toBeGreaterThan(0);
    close();
    const accepted = { ...steps.settings, maxMismatch: 0.1, calibrateMismatch: false, steps: 1 };
    const parts = partsOf(await opened(), { ...steps, learner, settings: accepted });
    await train(parts);
    expect(open[0]?.store.steps()[1]?.timing?.reused).toBe(kept);
  });
});
