import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Engine, LocalEngine } from "../../src/core/engine/engine.js";
import type { StepMetrics } from "../../src/core/learn/types.js";
import type { ProbeReading } from "../../src/core/run/records.js";
import type { Run } from "../../src/core/run/run.js";
import { sha256OfFile } from "../../src/core/util/files.js";
import { bringCloser } from "../../src/guards/closer.js";
import {
  checkMismatch,
  checkProbe,
  farMismatch,
  mismatchLimit,
  mismatchNote,
  noticeable,
  probeLimit,
} from "../../src/guards/mismatch.js";
import { readingOf, readProbe, scoreProbe } from "../../src/guards/probe.js";
import { EnginePolicy, type EnginePolicySettings } from "../../src/machine/play/engine-policy.js";
import { FakeLearner, openFake, partsOf, train } from "./support/fakes.js";

const mismatch = (mean: number, p99: number) => ({ mean, p99, max: 2 * p99 });
const closer = bringCloser({ weightType: "Q4_K", cuda: false, hfWeights: false, model: "a.gguf" });
const update = (mean: number, ess: number, slope: number | null = null) => ({
  mismatch: mismatch(mean, 10 * mean),
  importance: { truncated: 0, masked: 0, ess },
  drift: null,
  played: slope === null ? null : { slope, error: 0.02, tokens: 40 },
});
const auto = { maxMismatch: undefined, closer };

describe("the distance between engine and learner", () => {
  it("may be larger for weights that are rounded more, where no step says what is usual", () => {
    const limits = (types: string[], backend: string) => types.map((type) => mismatchLimit(type, { backend }));
    expect(limits(["F16", "BF16", "F32"], "cpu")).toEqual([0.02, 0.02, 0.02]);
    expect(limits(["Q8_0", "Q4_K_M"], "cpu")).toEqual([0.05, 0.05]);
    // On a card all but f16 is learnt in bf16.
    expect(limits(["F16", "BF16", "F32", "Q8_0"], "cuda")).toEqual([0.02, 0.05, 0.05, 0.05]);
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

  it("is told from what was learnt since a step was played ahead, which weights must correct for too", () => {
    const ahead = (ess: number) => ({ ...update(0.0003, ess), drift: { mean: 0.21, kl: 0.1, n: 343 } });
    expect(checkMismatch(ahead(0.9), auto)).toBeUndefined();
    expect(checkMismatch(ahead(0.28), auto)).toMatch(
      /^the learner is too far from .* differ by 0\.2100 on average \(n=343\), .* 28 % of the tokens.*lower --learning-rate or less --staleness/s,
    );
    // A limit of the user's own is of the distance that rounding makes.
    expect(checkMismatch(ahead(0.28), { ...auto, maxMismatch: 0.01 })).toBeUndefined();
  });

  it("stops the run where importance weights no longer correct for it, with the figures, at whatever mean", () => {
    // SmolLM2-135M, Q4_1: 0.053 and 0.078 nats.
    expect(checkMismatch(update(0.078, 0.99), auto)).toBeUndefined();
    expect(checkMismatch(update(0.3, 0.5), auto)).toBeUndefined();
    expect(checkMismatch(update(0.9, 0.31), auto)).toMatch(
      "differ by 0.9000 on average (p99 9.000, max 18.000); the effective sample size is 31 % of the tokens, below 50 %; the step was not taken.\nBegin another run (--run NAME) with --model a.gguf --weights f16",
    );
  });

  it("is held to the user's own limit in place of that", () => {
    expect(checkMismatch(update(0.9, 0.31), { maxMismatch: 1, closer })).toBeUndefined();
    expect(checkMismatch(update(0.0213, 0.99), { maxMismatch: 0.02, closer })).toMatch(
      /differ by 0\.0213 on average .*; the limit is 0\.02; the step was not taken\.\n.* or raise --max-mismatch/,
    );
  });

  it("is told when it grows far beyond that of the run's first three steps, and again when it doubles", () => {
    const first = [mismatch(0.0005, 0.1), mismatch(0.0015, 0.1), mismatch(0.001, 0.1)];
    expect(noticeable([...first, mismatch(1, 1)])).toBeCloseTo(0.008);
    expect(noticeable([mismatch(0, 0)])).toBe(0.0015);
    expect(mismatchNote(update(0.19, 1), [], 0.2)).toBeUndefined();
    expect(mismatchNote(update(0.4, 0.8), [], 0.2)).toMatch(
      /^engine and learner differ by more than rounding explains: .*0\.4000 on average.* 80 % of the tokens\)\. Try --weights f16/s,
    );
    const clean = farMismatch("F16", { backend: "cpu" });
    expect(mismatchNote(update(0.006, 1), [], clean)).toBeUndefined();
    // A temperature that the learner leaves out.
    expect(mismatchNote(update(0.015, 1), [], clean)).toMatch(
      /0\.0150 on average.* below 0\.0125 with such weights on/,
    );
    // Twice what clean runs had, by weights and device; else what is above all of them, and it is said so.
    const onCpu = ["Q8_0", "Q4_1", "Q4_K", "Q6_K"].map((weights) => farMismatch(weights, { backend: "cpu" }));
    expect(onCpu).toEqual([0.1, 0.11, 0.14, 0.2]);
    expect(["vulkan", "cuda"].map((backend) => farMismatch("Q8_0", { backend }))).toEqual([0.2, 0.2]);
    expect(farMismatch("F16", { backend: "vulkan" })).toBe(0.2);
    expect(mismatchNote(update(0.25, 1), [], 0.2)).toContain("no clean run is recorded");
    expect(mismatchNote(update(0.0079, 1), first, 0.2)).toBeUndefined();
    expect(mismatchNote(update(0.009, 0.98, 1.01), first, 0.2)).toBe(
      "engine and learner differ more than in the run's first steps (0.0010 nats): the log-probabilities of the sampled tokens differ by 0.0090 on average (p99 0.090, max 0.180).\nImportance weights correct for it (effective sample size: 98 % of the tokens), and the engine plays the learner's adapter (slope 1.01 ± 0.02)",
    );
    // Steps that were far from usual and not told leave it as it is.
    expect(mismatchNote(update(0.009, 0.98), [...first, mismatch(0.006, 0.1)], 0.2)).toContain("0.0090 on average");
    const grown = [...first, mismatch(0.009, 0.1)];
    expect(mismatchNote(update(0.017, 0.98), grown, 0.2)).toBeUndefined();
    expect(mismatchNote(update(0.019, 0.98), grown, 0.2)).toContain("cannot be told from this step's tokens");
  });
});

describe("a reading of a probe", () => {
  const read = (after: number, before: number, limit = 0.0015, moved: number | null = null) =>
    checkProbe({ after, before, n: 56, moved }, limit, "step 3", "it was not taken");

  it("has the limit that the run's own steps set, or the user", () => {
    const settings = { maxMismatch: undefined, expectedMismatch: 0.02 };
    expect(probeLimit([], settings)).toBe(0.02);
    expect(probeLimit([mismatch(0.06, 0.2)], settings)).toBeCloseTo(0.48);
    expect(probeLimit([mismatch(0.06, 0.2)], { ...settings, maxMismatch: 0.1 })).toBe(0.1);
  });

  it("is right when the engine is nearer to the new policy, and not far from it", () => {
    expect(read(0.0001, 0.0272)).toBeUndefined();
    expect(checkProbe(null, 0, "step 3", "it was not taken")).toBeUndefined();
    // The mean of few tokens varies more than that of a step.
    expect(read(0.004, 0.02)).toBeUndefined();
    expect(read(0.005, 0.02)).toMatch("the engine does not play the adapter of step 3");
  });

  it("is no alarm where the update was smaller than rounding", () => {
    expect(read(0.0002, 0.0002)).toBeUndefined();
    expect(read(0.00021, 0.0002)).toBeUndefined();
    expect(read(0.04, 0.0399, 0.05)).toBeUndefined();
    expect(read(0.0002, 0.0001)).toBeUndefined();
    // Neither is 0: the policy before may agree to the last bit.
    expect(read(1e-7, 0)).toBeUndefined();
    expect(read(0.00009, 0)).toBeUndefined();
  });

  it("is of the adapter before, whatever the size of the update, where loading changed nothing", () => {
    expect(read(7.5e-6, 2.0e-6, 0.0015, 1e-9)).toBeUndefined();
    expect(read(7.5e-6, 2.0e-6, 0.0015, 0)).toMatch(
      "the engine still plays the adapter before step 3: on its probe loading it did not change a single log-probability; they differ by 7.5e-6 on average from the learner's after that update, and by 2.0e-6 from those before it (n=56)",
    );
  });

  it("is no alarm where a large update left more rounding", () => {
    expect(read(0.008, 0.5265)).toBeUndefined();
    expect(read(0.03, 0.5265)).toMatch("the engine does not play the adapter of step 3");
  });

  it("tells the adapter before from another one", () => {
    expect(read(0.0006, 0.00002)).toMatch("the engine still plays the adapter before step 3: on its probe");
    expect(read(0.03, 0.02)).toMatch(
      /^the engine does not play the adapter of step 3: on its probe .*; it was not taken\.\nThe same command tries again; --max-mismatch raises/,
    );
    expect(read(0.0272, 0.0001)).toMatch(
      "differ by 0.0272 on average from the learner's after that update, and by 1.0e-4 from those before it (n=56)",
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

  it("is measured on every replica of the engine, of which the worst counts", async () => {
    write(probe);
    const read = readProbe(adapter());
    if (!read) throw new Error("there is a probe");
    const reading = async (engine: Engine) => readingOf(read, (await scoreProbe(engine, read)) ?? []);
    expect(await reading(engineOf([-1, 0, -2]))).toEqual({ after: 0, before: 1, n: 2, moved: null });
    expect(await reading(engineOf([-1, 0, -2], [-1, 0, -4]))).toEqual({ after: 1, before: 0, n: 2, moved: null });
    const short = { ...engineOf([-1, 0, -2]), info: { contextPerSequence: 3, replicas: 1 } } as unknown as Engine;
    expect(await scoreProbe(short, read)).toBeUndefined();
  });

  it("shows an engine, or one replica of it, that plays to the last bit what it played before", () => {
    write(probe);
    const read = readProbe(adapter());
    if (!read) throw new Error("there is a probe");
    const [old, other] = [
      [-1.1, -4],
      [-1.1, -3.9],
    ];
    const moved = (now: number[][], earlier: number[][]) => readingOf(read, [other], { earlier, now }).moved;
    expect(moved([other], [old])).toBeCloseTo(0.05);
    expect(moved([old], [old])).toBe(0);
    expect(moved([other, old], [old, old])).toBe(0);
    // The learner did not move either.
    expect(readingOf({ ...read, before: read.logprobs }, [old], { earlier: [old], now: [old] }).moved).toBeNull();
  });

  it("is scored before its adapter is loaded and after, and is no alarm for the same adapter under another path", async () => {
    let loaded: string | null = null;
    let stuck = true;
    let scorings = 0;
    const engine = {
      info: { contextPerSequence: 4, replicas: 1 },
      get adapter() {
        return loaded;
      },
      useAdapter: async (path: string | null) => {
        loaded = path;
      },
      score: async () => {
        scorings += 1;
        return Float32Array.from(stuck || loaded === null ? [-1, 0, -4] : [-1, 0, -2]);
      },
    };
    const policy = new EnginePolicy(engine as unknown as LocalEngine, {} as EnginePolicySettings);
    const named = async (name: string, content: string) => {
      mkdirSync(join(base, name));
      const path = join(base, name, "adapter.gguf");
      writeFileSync(path, content);
      writeFileSync(join(base, name, "probe.json"), JSON.stringify(probe));
      return { path, sha256: await sha256OfFile(path) };
    };
    const [one, copy, two] = [await named("1", "one"), await named("2", "one"), await named("3", "two")];
    const reading = async (adapter: { path: string; sha256: string }) => {
      await policy.use(adapter);
      return policy.probe();
    };
    expect(await reading(one)).toEqual({ after: 1, before: 0, n: 2, moved: 0 });
    expect(await policy.probe()).toBeNull();
    expect(await reading(copy)).toMatchObject({ moved: null });
    expect(await reading(two)).toMatchObject({ moved: 0 });
    await policy.use(null);
    stuck = false;
    expect(await reading(two)).toEqual({ after: 0, before: 1, n: 2, moved: 2 / 3 });
    await policy.use(null);
    const scored = scorings;
    expect(await reading(two)).toEqual({ after: 0, before: 1, n: 2, moved: 2 / 3 });
    expect(scorings - scored).toBe(2);
    await policy.use(null);
    stuck = true;
    expect(await reading(two)).toMatchObject({ moved: 0 });
  });
});

describe("a run", () => {
  const steps = { settings: { steps: 3, validateEvery: 0, keep: 9 } };
  const old: ProbeReading = { after: 0.01, before: 0.0001, n: 50, moved: null };
  const fine: ProbeReading = { after: 0.0001, before: 0.01, n: 50, moved: null };

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
      /^the engine still plays the adapter before step 2: .*; the step was taken back\.\nThe same command tries again$/,
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

  it("goes on where the distance grows and importance weights hold, and tells it once", async () => {
    const said: string[] = [];
    const means = [0.0002, 0.0017, 0.0018];
    const learner = (from: string | undefined) =>
      new FakeLearner(from, undefined, () => ({ mismatch: mismatch(means.shift() ?? 0, 0.02) }));
    const parts = partsOf(await opened(), { ...steps, learner });
    await train({ ...parts, view: { ...parts.view, log: (text) => said.push(text) } });
    expect(open[0]?.store.lastStep().step).toBe(3);
    expect(said.map((text) => text.replace(/nats\).*/s, "nats)"))).toEqual([
      "engine and learner differ more than in the run's first steps (0.0002 nats)",
    ]);
  });

  it("measures the distance by steps with the same device and precision", async () => {
    const said: string[] = [];
    const on = async (numerics: string, stepCount: number, mean: number) => {
      const learner = (from: string | undefined) =>
        new FakeLearner(from, undefined, () => ({ mismatch: mismatch(mean, 0.02) }));
      const settings = { ...steps.settings, numerics: { engine: numerics, hfWeights: false }, steps: stepCount };
      const parts = partsOf(await opened(), { learner, settings });
      await train({ ...parts, view: { ...parts.view, log: (text) => said.push(`${numerics} ${text.slice(0, 25)}`) } });
      close();
    };
    await on("cpu", 1, 0.0002);
    await on("gpu", 2, 0.01);
    await on("gpu", 3, 0.02);
    expect(said).toEqual([]);
    await on("cpu", 4, 0.01);
    expect(said).toEqual(["cpu engine and learner differ"]);
  });

  it("keeps the rollouts of a step that is refused for its distance", async () => {
    const far: Partial<StepMetrics> = { mismatch: mismatch(0.9, 3), importance: { truncated: 0, masked: 0, ess: 0.4 } };
    const learner = (from: string | undefined) => new FakeLearner(from, undefined, () => far);
    const run = await opened();
    await expect(train(partsOf(run, { ...steps, learner }))).rejects.toThrow(
      "set a limit of your own with --max-mismatch if you accept it",
    );
    const kept = run.store.rollouts("train", 1).length;
    expect(kept).toBeGreaterThan(0);
    close();
    const accepted = { ...steps.settings, maxMismatch: 1, steps: 1 };
    const parts = partsOf(await opened(), { ...steps, learner, settings: accepted });
    await train(parts);
    expect(open[0]?.store.steps()[1]?.timing?.reused).toBe(kept);
  });
});
