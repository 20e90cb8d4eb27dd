/** What a run's store has of a committed step, read again by another connection. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { evaluate } from "../../src/core/run/evaluation.js";
import type { RolloutCredit, StepRow, ValidationRow } from "../../src/core/run/records.js";
import { bestOf } from "../../src/core/run/run.js";
import { RunStore } from "../../src/core/run/store.js";
import { type CreditedGroup, creditGroups, creditsOf } from "../../src/core/train/credit.js";
import { stepMetricsRow } from "../../src/core/train/metrics.js";
import {
  bestGuard,
  checkBest,
  checkMeasured,
  checkStored,
  type StoredRollout,
  storedGuard,
} from "../../src/guards/stored.js";
import { RunReader } from "../../src/machine/runs/reader.js";
import { metricsOf, trajectoryOf } from "./support/fakes.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-stored-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const scenario = (name: string) => ({ id: name, split: "train" as const, question: "?" });
const played = ["a", "b", "c"].map((name, group) =>
  [1, 0, 0.5].map((reward, index) =>
    trajectoryOf({ scenario: scenario(name), index, seed: 10 * group + index, reward: group === 1 ? 1 : reward }),
  ),
);
// A server tells more digits of log-probabilities than the store has.
for (const [{ tokens }] of played as [ReturnType<typeof trajectoryOf>][]) {
  if (tokens) tokens.logprobs = tokens.logprobs.map((value) => value * (1 + 1e-9));
}
// Ended by no fault of the model: neither in the mean nor in the batch.
played[2]?.push({ ...trajectoryOf({ scenario: scenario("c"), index: 3, seed: 40 }), end: "tool_failure" });
const groups: readonly CreditedGroup[] = creditGroups(
  played,
  played.map((group, i) =>
    i === 2
      ? { kind: "no_verdict", reason: "?" }
      : { kind: "rewarded", rewards: group.map((one) => one.reward.reward) },
  ),
  { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 },
);

/** A run of one step, and its rollouts as another connection reads them. */
function stored(credits: readonly RolloutCredit[]): readonly StoredRollout[] {
  const store = RunStore.open(join(folder, "run.sqlite"));
  store.begin({ name: "r", created: "", options: {}, contents: {} }, { checkpoint: null, adapter: null });
  for (const one of played.flat()) store.saveRollout("train", 1, one);
  store.commitStep({ step: 1, checkpoint: null, adapter: null, metrics: null, timing: null } as StepRow, credits);
  const reader = RunReader.open(folder);
  try {
    return [...reader.rollouts({ phase: "train", from: 1, to: 1 })];
  } finally {
    reader.close();
    store.close();
  }
}

it("is what was trained on", () => {
  const rows = stored(creditsOf(groups));
  expect(checkStored(1, groups, rows)).toBeUndefined();
  const solved = played.flat().map(({ reward }) => reward.success);
  expect(rows.map((row) => "success" in row && row.success)).toEqual(solved);
});

it("is refused where advantages or rewards are another rollout's", () => {
  const before = creditsOf(groups).map((credit) => ({ ...credit, member: Math.max(0, credit.member - 1) }));
  expect(checkStored(1, groups, stored(before))).toMatch(/the store has step 1 otherwise than it was made: .*a\//);
});

it("is refused where a rollout is another, or has another reward, id, mask or log-probability", () => {
  const rows = stored(creditsOf(groups));
  const [first, ...others] = rows as [StoredRollout, ...StoredRollout[]];
  const tokens = first.trajectory.tokens as NonNullable<StoredRollout["trajectory"]["tokens"]>;
  const wrong = (changed: Partial<StoredRollout["trajectory"]>) => [
    { ...first, trajectory: { ...first.trajectory, ...changed } },
    ...others,
  ];
  const cases = [
    others,
    wrong({ id: "a/1" }),
    wrong({ reward: { ...first.trajectory.reward, reward: 7 } }),
    wrong({ tokens: { ...tokens, ids: tokens.ids.map((id) => id + 1) } }),
    wrong({ tokens: { ...tokens, sampled: tokens.sampled.map(() => 1) } }),
    wrong({ tokens: { ...tokens, logprobs: tokens.logprobs.map((value) => value / 2) } }),
    // One token or sequence more.
    wrong({ tokens: { ids: [...tokens.ids, 1], sampled: [...tokens.sampled, 0], logprobs: [...tokens.logprobs, 0] } }),
    wrong({ branches: [{ messages: [], tokens }] }),
    [{ ...first, trainingReward: null }, ...others],
    [{ ...first, advantage: -1 }, ...others],
  ];
  for (const one of cases) expect(checkStored(1, groups, one)).toMatch("the store has step 1 otherwise");
});

it("takes the commit back", async () => {
  const looked = async (rows: readonly StoredRollout[]) =>
    storedGuard({ rollouts: () => rows, metrics: () => null, validations: () => [] }).afterCommit?.({
      step: 1,
      groups,
      learnt: null,
    });
  expect(await looked(stored(creditsOf(groups)))).toBeUndefined();
  expect(await looked([])).toMatchObject({ demand: "take the commit back" });
});

describe("the best state", () => {
  const validations = [0.2, 0.7, 0.5].map((reward, step) => ({ step, result: { reward, n: 4 } }) as ValidationRow);

  it("is the one with the highest mean reward", async () => {
    const reader = { rollouts: () => [], metrics: () => null, validations: () => validations };
    expect(await bestGuard(reader).afterCommit?.({ step: 2, groups: [], learnt: null })).toBeUndefined();
    expect(checkBest(validations[1], validations)).toBeUndefined();
    expect(checkBest(undefined, [])).toBeUndefined();
  });

  it("is none of which nothing was measured, whatever the others' rewards are", () => {
    const below = [-0.3, -0.1].map((reward, step) => ({ step, result: { reward, n: 4 } }) as ValidationRow);
    const none: ValidationRow = { step: 2, checkpoint: 2, result: evaluate([], 4), seconds: 1 };
    expect(bestOf([...below, none])).toBe(below[1]);
    expect(checkBest(below[1], [...below, none])).toBeUndefined();
    expect(checkBest(none, [...below, none])).toMatch("the highest mean reward of a validation is -0.1");
    expect(bestOf([none])).toBeUndefined();
    expect(checkBest(undefined, [none])).toBeUndefined();
    expect(checkBest(none, [none])).toBeDefined();
  });

  it("is refused where another was better", () => {
    for (const best of [validations[0], validations[2], undefined]) {
      expect(checkBest(best, validations)).toMatch(
        "the highest mean reward of a validation is 0.7, and the run takes for the best state",
      );
    }
  });
});

describe("what a step measured", () => {
  const learnt = metricsOf();
  const row = stepMetricsRow(groups, [], 0.1, learnt);
  let rows: readonly StoredRollout[];
  beforeEach(() => {
    rows = stored(creditsOf(groups));
  });

  it("is what its rollouts and its update give", () => {
    expect(row).toMatchObject({ groups_trainable: 1, training_n: 6, rollouts: 10 });
    expect(checkMeasured(1, groups, learnt, rows, row)).toBeUndefined();
    // An earlier attempt at the step may have left rollouts of other scenarios.
    const leftOver = rows.slice(0, 1).map((one) => ({ ...one, scenario: "another" }));
    expect(checkMeasured(1, groups, learnt, [...leftOver, ...rows], row)).toBeUndefined();
    const without = stepMetricsRow(groups, [], 0.1, null);
    expect(checkMeasured(1, groups, null, rows, without)).toBeUndefined();
    // A group whose rollouts all failed.
    const none = stepMetricsRow([], [], 0.1, null);
    expect(checkMeasured(1, [], null, [], none)).toBeUndefined();
  });

  it.each([
    ["reward", { reward: 0.5 }, "reward is 0.5 there, and its rollouts had 0.7"],
    ["success", { success: 0.9 }, "success is 0.9 there"],
    ["tokens", { completion_tokens: 1 }, "completion_tokens is 1 there"],
    ["groups", { groups_trainable: 2 }, "groups_trainable is 2 there, and its rollouts had 1"],
    ["training reward", { training_reward: null }, "training_reward is null there"],
    ["entropy", { entropy: 7 }, "entropy is 7 there"],
    ["loss", { loss: 0.4 }, "loss is 0.4 there, and its update had 0.5"],
    ["norm", { grad_norm: null }, "grad_norm is null there, and its update had 1"],
    ["a number that is none", { reward: Number.NaN }, "reward is NaN there"],
  ])("is refused where another %s is noted", (_, changed, words) => {
    expect(checkMeasured(1, groups, learnt, rows, { ...row, ...changed })).toMatch(words);
  });
});
