/** What a run's store has of a committed step, read again by another connection. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import type { RolloutCredit, StepRow } from "../../src/core/run/records.js";
import { RunStore } from "../../src/core/run/store.js";
import { type CreditedGroup, creditGroups, creditsOf } from "../../src/core/train/credit.js";
import type { Moments } from "../../src/core/train/guard.js";
import { checkStored, type StoredRollout, storedGuard } from "../../src/guards/stored.js";
import { RunReader } from "../../src/machine/runs/reader.js";
import { trajectoryOf } from "./support/fakes.js";

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
  checkStored(1, groups, stored(creditsOf(groups)));
});

it("is refused where advantages or rewards are another rollout's", () => {
  const before = creditsOf(groups).map((credit) => ({ ...credit, member: Math.max(0, credit.member - 1) }));
  expect(() => checkStored(1, groups, stored(before))).toThrow(
    /the store has step 1 otherwise than it was made: .*a\//,
  );
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
    [{ ...first, trainingReward: null }, ...others],
  ];
  for (const one of cases) expect(() => checkStored(1, groups, one)).toThrow("the store has step 1 otherwise");
});

it("is looked at once, after the step is committed, and the commit is taken back", async () => {
  let last = 0;
  const asked: number[] = [];
  const rollouts = (step: number) => {
    asked.push(step);
    return [];
  };
  const guard = storedGuard({ last: () => last, rollouts });
  const seen = { groups, steps: [{ step: 0 }] } as unknown as Moments["beforeUpdate"];
  const waking = {} as Moments["afterWaking"];
  expect(await guard.beforeUpdate?.(seen)).toBeUndefined();
  expect(await guard.afterWaking?.(waking)).toBeUndefined();
  last = 1;
  expect(await guard.afterWaking?.(waking)).toMatchObject({ demand: "take the commit back" });
  expect(await guard.afterWaking?.(waking)).toBeUndefined();
  expect(asked).toEqual([1]);
});
