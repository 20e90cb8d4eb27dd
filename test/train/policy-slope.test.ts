/** Which policy played a step, by the learner's slope over its tokens: what is compared, and what stops the run. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { StepMetrics, StepSettings } from "../../src/core/learn/types.js";
import type { StepMetricsRow } from "../../src/core/run/records.js";
import type { Run } from "../../src/core/run/run.js";
import { earlierThan, LastUpdates, whoPlayed } from "../../src/core/train/earlier.js";
import { versionOf } from "../../src/core/train/version.js";
import { checkPolicySlope } from "../../src/guards/policy-slope.js";
import { FakeLearner, openFake, partsOf, train } from "./support/fakes.js";

const slope = (slope: number, error: number) => ({ slope, error, tokens: 200 });
const played = (one: ReturnType<typeof slope> | null, previous = one) => one && { ...one, previous };

it("is decided where its interval leaves out one half", () => {
  // Measured on the tiny model at 1e-5 and at 1e-3, with the right adapter.
  expect([slope(1.16, 0.14), slope(1.29, 0.12), slope(0.9998, 4e-5)].map(whoPlayed)).toEqual(Array(3).fill("current"));
  // The same engine with the adapter of one update before.
  expect([slope(0.02, 0.09), slope(-0.6, 0.12), slope(2e-4, 4e-5)].map(whoPlayed)).toEqual(Array(3).fill("earlier"));
  // As far from either as rounding allows.
  expect([slope(0.7, 0.24), slope(-0.5, 0.9), slope(0, 0.126)].map(whoPlayed)).toEqual(Array(3).fill("undecided"));
  // A learner whose adapter is twice the one that played, and half of it.
  expect([slope(0.5, 0.05), slope(2, 0.1)].map(whoPlayed)).toEqual(Array(2).fill("neither"));
  // One that loses most of a young adapter's change to rounding, as PEFT's layers do in 16 bits.
  expect(whoPlayed(slope(3.69, 0.48))).toBe("neither");
});

describe("the policy that a step is compared with", () => {
  const row = (checkpoint: number | null, played: StepMetrics["played"] = null) => ({
    checkpoint,
    metrics: { played: played && { ...played, earlier: null } } as StepMetricsRow,
  });
  /** As a run stores them: each step was played by the policy before it, or by one so many steps older. */
  const stored = (rows: readonly ReturnType<typeof row>[], staleness = 0) =>
    rows.map(({ checkpoint, metrics }, step) => ({
      checkpoint,
      metrics: { ...metrics, version: versionOf(step, staleness) },
    }));
  const [known, open] = [played(slope(1, 0.01)), played(slope(1, 0.4))];
  const there = () => true;
  const earlierOf = (rows: readonly ReturnType<typeof row>[], exists: (checkpoint: number) => boolean) =>
    earlierThan(stored(rows), exists);

  it("is the one before the last update, where the engine was known to play that", () => {
    expect(earlierOf([row(null)], there)).toBeUndefined();
    expect(earlierOf([row(null), row(1)], there)).toEqual({ checkpoint: null });
    expect(earlierOf([row(null), row(1), row(2, known)], there)).toEqual({ checkpoint: 1 });
    expect(earlierOf([row(null), row(1), row(2, known), row(3, known)], there)).toEqual({ checkpoint: 2 });
  });

  it("stays the same until the engine is known to play a later one, so that updates add up, beside the previous one", () => {
    const undecided = [row(null), row(1), row(2, known), row(3, open), row(4, open)];
    expect(earlierOf(undecided.slice(0, 4), there)).toEqual({ checkpoint: 1, previous: 2 });
    expect(earlierOf(undecided, there)).toEqual({ checkpoint: 1, previous: 3 });
    expect(earlierOf([...undecided, row(4, open)], there)).toEqual({ checkpoint: 1, previous: 3 });
    expect(earlierOf(undecided, (checkpoint) => checkpoint !== 3)).toEqual({ checkpoint: 1 });
    expect(earlierOf([...undecided, row(5, known)], there)).toEqual({ checkpoint: 4 });
    expect(earlierOf([row(null), row(1, null), row(2, open)], there)).toEqual({ checkpoint: null, previous: 1 });
  });

  it("is the base model where that policy is the present one, or its checkpoint is gone", () => {
    expect(earlierOf([row(0), row(1, known)], there)).toEqual({ checkpoint: 0 });
    expect(earlierOf([row(0)], there)).toEqual({ checkpoint: null });
    expect(earlierOf([row(null), row(1), row(1, known), row(1)], there)).toEqual({ checkpoint: null });
    expect(earlierOf([row(null), row(1), row(2, known)], () => false)).toEqual({ checkpoint: null });
  });
});

describe("the policy that a step is compared with, where steps are played ahead", () => {
  const committed = (count: number, staleness: number) =>
    Array.from({ length: count + 1 }, (_, step) => ({
      checkpoint: step === 0 ? null : step,
      metrics: { played: { ...slope(1, 0.01), earlier: null, previous: null }, version: versionOf(step, staleness) },
    })) as never[];

  it("is the one before that which plays it, not before the one that is trained", () => {
    expect(earlierThan(committed(5, 1), () => true, 4)).toEqual({ checkpoint: 3 });
    expect(earlierThan(committed(5, 2), () => true, 3)).toEqual({ checkpoint: 2 });
    expect(earlierThan(committed(1, 1), () => true, 0)).toBeUndefined();
  });
});

describe("slopes of single updates", () => {
  const pooled = (slopes: readonly (readonly [number, number])[]) => {
    const updates = new LastUpdates();
    for (const [value, error] of slopes) updates.add(slope(value, error));
    return updates.pooled;
  };

  it("decide together what none of them decides, whichever engine it is", () => {
    const errors = [0.3, 0.4, 0.25, 0.3, 0.35, 0.3, 0.3, 0.25];
    const noise = [0.2, -0.3, 0.1, -0.1, 0.3, -0.2, 0.1, -0.1];
    const around = (value: number) => noise.map((by, i) => [value + by, errors[i] as number] as const);
    for (const [value, error] of [...around(0), ...around(1)]) expect(whoPlayed(slope(value, error))).toBe("undecided");
    const [lags, follows] = [pooled(around(0)), pooled(around(1))];
    expect([lags, follows].map((one) => one && whoPlayed(one))).toEqual(["earlier", "current"]);
    expect(lags).toMatchObject({
      tokens: 1600,
      steps: 8,
      slope: expect.closeTo(0, 1),
      error: expect.closeTo(0.105, 3),
    });
  });

  it("of rounding alone, which is in both policies, decide nothing", () => {
    const noise = pooled(Array.from({ length: 40 }, (_, i) => [0.5 + 0.2 * Math.sin(i), 0.2] as const));
    expect(noise && whoPlayed(noise)).not.toBe("earlier");
  });

  it("begin anew after an update that was seen to be played", () => {
    expect(
      pooled([
        [0, 0.2],
        [0, 0.2],
        [1, 0.1],
      ]),
    ).toBeUndefined();
    expect(
      pooled([
        [1, 0.1],
        [0, 0.2],
      ]),
    ).toMatchObject({ slope: 0, error: 0.2, steps: 1 });
    expect(pooled([])).toBeUndefined();
  });
});

it("refuses a step that neither policy played, unless it was played ahead: the learner has moved on since", () => {
  const neither = (drift: StepMetrics["drift"]) =>
    checkPolicySlope({ played: played(slope(2, 0.1)), drift }, 3, { checkpoint: 1 }, new LastUpdates());
  expect(neither(null)).toMatch("the engine played neither checkpoint 3 nor checkpoint 1 (slope 2.00 ± 0.10, n=200;");
  expect(neither({ mean: 0.1, kl: 0.01, n: 200 })).toBeUndefined();
});

describe("a run", () => {
  let base: string;
  let run: Run;
  beforeEach(async () => {
    base = mkdtempSync(join(tmpdir(), "hone-played-"));
    run = await openFake(join(base, "run"));
  });
  afterEach(() => {
    run.close();
    rmSync(base, { recursive: true });
  });

  /** Runs steps whose slopes are these; returns what each was compared with. */
  async function goThrough(slopes: readonly StepMetrics["played"][]) {
    const asked: (string | null | undefined)[] = [];
    const named = (policy: StepSettings["earlier"]) =>
      policy && (policy.checkpoint === null ? null : basename(policy.checkpoint));
    const previous: (string | null | undefined)[] = [];
    const answer = (step: StepSettings) => {
      asked.push(named(step.earlier));
      previous.push(named(step.previous));
      return { played: slopes[asked.length - 1] ?? null };
    };
    const learner = (from: string | undefined) => new FakeLearner(from, undefined, answer);
    const settings = { steps: slopes.length, validateEvery: 0, keep: 1 };
    const ended = await train(partsOf(run, { learner, settings })).then(
      () => undefined,
      (error: Error) => error.message,
    );
    return { asked, previous, ended, kept: run.checkpoints.list() };
  }

  it("compares with a policy whose checkpoint it keeps for that, beside the newest", async () => {
    const { asked, previous, ended, kept } = await goThrough(
      [null, slope(1, 0.1), slope(1, 0.3), slope(1, 0.3), slope(1, 0.1)].map((one) => played(one)),
    );
    expect(ended).toBeUndefined();
    expect(asked).toEqual([undefined, null, "0001", "0001", "0001"]);
    expect(previous).toEqual([undefined, undefined, undefined, "0002", "0003"]);
    // The next is compared with what the last was played with.
    expect(kept).toEqual(expect.arrayContaining([4, 5]));
    expect(kept).not.toContain(3);
    expect(run.store.steps().map(({ metrics }) => metrics?.played?.earlier)).toEqual([
      ...[undefined, undefined, null, 1, 1, 1],
    ]);
  });

  it("stops at a step that an older adapter played, and plays it again", async () => {
    const { ended, kept } = await goThrough(
      [null, slope(1, 0.1), slope(0.1, 0.05), slope(1, 0.1)].map((one) => played(one)),
    );
    expect(ended).toBe(
      "the engine played this step with an adapter older than checkpoint 2: the log-probabilities of its tokens follow checkpoint 1 (slope 0.10 ± 0.05, n=200; 1 is checkpoint 2, 0 is checkpoint 1); the step was not taken.\nThe same command plays it again",
    );
    expect(run.store.lastStep().step).toBe(2);
    expect(run.store.rollouts("train", 3)).toEqual([]);
    expect(kept).toContain(1);
  });

  it("stops where the engine lags by one update, which the policy of several updates before does not show", async () => {
    const lags = (value: number) => played(slope(value, 0.09), slope(0.05, 0.2));
    const { ended } = await goThrough([null, lags(0.2), lags(0.56), lags(0.67), lags(0.7), lags(0.75), lags(0.8)]);
    expect(ended).toBe(
      "the engine lags behind the learner: over the last 4 steps it played the policies of one update before (slope 0.05 ± 0.10, n=800; 1 is the learner's policy, 0 that of one update before); the step was not taken.\nThe same command plays it again",
    );
    expect(run.store.rollouts("train", run.store.lastStep().step + 1)).toEqual([]);
    // Another process loads another engine, of which nothing is known yet.
    expect((await goThrough([played(slope(1, 0.1))])).ended).toBeUndefined();
  });
});
