/** Groups that teach nothing are replaced by further scenarios, the same ones after an interruption. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { RewardGroup } from "../../src/core/reward/reward.js";
import type { Run } from "../../src/core/run/run.js";
import { creditGroups } from "../../src/core/train/credit.js";
import type { UpdateRequest } from "../../src/core/train/parts.js";
import { deriveSeed } from "../../src/core/util/random.js";
import { ScenarioSampler } from "../../src/trainer/sampler.js";
import { readBatch } from "../learn/read-batch.js";
import { openFake, partsOf, scenarios, silent, train } from "./support/fakes.js";

let base: string;
const open: Run[] = [];
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "hone-refill-"));
});
afterEach(() => {
  for (const run of open.splice(0)) run.close();
  rmSync(base, { recursive: true });
});

async function opened(name: string): Promise<Run> {
  const run = await openFake(join(base, name));
  open.push(run);
  return run;
}

/** Only groups of these scenarios have spread. */
const teaching =
  (ids: ReadonlySet<string>): RewardGroup =>
  async (group) => ({
    kind: "rewarded",
    rewards: group.map(({ scenario, index }) => (ids.has(scenario.id) ? index : 0)),
  });

const settings = { steps: 1, refill: 4, validateEvery: 0 };

/** Runs one step; returns its metrics and what was played for it, by scenario. */
async function oneStep(name: string, ids: readonly string[], more = {}) {
  const run = await opened(name);
  const parts = partsOf(run, {
    change: { rewardGroup: teaching(new Set(ids)) },
    settings: { ...settings, ...more },
  });
  const asked: UpdateRequest[] = [];
  const { updater } = parts;
  const update = updater.update.bind(updater);
  updater.update = (request) => {
    asked.push(request);
    return update(request);
  };
  await train(parts);
  const played = [...new Set(run.store.rollouts("train", 1).map(({ scenario }) => scenario.id))];
  return { row: run.store.lastStep(), metrics: run.store.lastStep().metrics, played, asked, run };
}

const sampler = new ScenarioSampler(scenarios, { groupsPerStep: 2, seed: 3 });
const own = sampler.next(1, [], 0).map(({ id }) => id);

describe("refilling", () => {
  it("leaves replaced groups out of the pull of --kl", async () => {
    const { asked, run, metrics } = await oneStep("pulled", [], { kl: 0.1 });
    expect(metrics).toMatchObject({ groups: 6, groups_trainable: 0, skipped: null, updates: 1 });
    // Of six groups without spread, four were played in place of others: the mean is over two.
    expect(asked.map(({ rollouts }) => rollouts)).toEqual([6]);
    const { tensor } = readBatch(run.batchFile);
    expect(tensor("groups")).toEqual([0, 0, 0, 1, 1, 1]);
    expect(asked[0]?.sampledTokens).toBe(tensor("sampled").reduce((sum, flag) => sum + flag, 0));
  });

  it("is off unless it is asked for", async () => {
    const { metrics, played } = await oneStep("off", [], { refill: 0 });
    expect(metrics).toMatchObject({ groups: 2, groups_flat: 2, groups_refilled: 0, skipped: "no_spread" });
    expect(new Set(played)).toEqual(new Set(own));
  });

  it("plays others of the train split in the place of groups without spread, as many as it may", async () => {
    const { metrics, played } = await oneStep("most", []);
    expect(metrics).toMatchObject({
      groups: 6,
      groups_flat: 6,
      groups_refilled: 4,
      rollouts: 18,
      skipped: "no_spread",
    });
    expect(played).toHaveLength(6);
    const train = scenarios.filter(({ split }) => split === "train").map(({ id }) => id);
    expect(train).toEqual(expect.arrayContaining(played));
  });

  it("ends when the step has its number of groups with spread, and the mean is over these", async () => {
    const [kept, flat] = own as [string, string];
    const others = scenarios.map(({ id }) => id).filter((id) => id !== flat);
    const { metrics, played, asked } = await oneStep("filled", others);
    expect(played).toContain(kept);
    expect(metrics).toMatchObject({
      groups: 3,
      groups_trainable: 2,
      groups_flat: 1,
      groups_refilled: 1,
      skipped: null,
    });
    expect(asked.map(({ rollouts }) => rollouts)).toEqual([6]);
    expect(asked.map(({ seed }) => seed)).toEqual([deriveSeed("minibatches", 3, 1)]);
    // Without it, the group without spread counts in the mean.
    const without = await oneStep("not filled", others, { refill: 0 });
    expect(without.asked.map(({ rollouts }) => rollouts)).toEqual([6]);
    expect(without.metrics).toMatchObject({ groups: 2, groups_trainable: 1 });
  });

  it("ends when the train split has no others", async () => {
    const { metrics } = await oneStep("all", [], { refill: 50 });
    expect(metrics).toMatchObject({ groups: 8, groups_refilled: 6 });
  });

  it("goes on with the same scenarios and the saved rollouts where it was stopped", async () => {
    // The first further scenario teaches nothing either: there is a second round.
    const order = sampler.next(1, flat(2), 4).map(({ id }) => id);
    const ids = scenarios.map(({ id }) => id).filter((id) => !own.includes(id) && id !== order[0]);
    const whole = await oneStep("whole", ids);
    expect(whole.metrics).toMatchObject({ groups: 5, groups_refilled: 3, groups_trainable: 2 });
    for (const stopAt of [4, 7, 10, 14]) {
      const name = `stopped ${stopAt}`;
      const run = await opened(name);
      const stop = new AbortController();
      let seen = 0;
      const view = { ...silent, rollout: () => ++seen === stopAt && stop.abort() } as typeof silent;
      const change = { view, signal: stop.signal, rewardGroup: teaching(new Set(ids)) };
      const first = partsOf(run, { change, settings });
      await expect(train(first)).rejects.toThrow("interrupted in step 1");
      open.splice(open.indexOf(run), 1);
      run.close();
      const again = partsOf(await opened(name), { change: { rewardGroup: teaching(new Set(ids)) }, settings });
      await train(again);
      const row = again.run.store.lastStep();
      expect(row.metrics).toEqual(whole.metrics);
      expect(row.adapter).toBe(whole.row.adapter);
      expect(row.timing?.reused).toBe(stopAt);
      const all = [...first.policy.played, ...again.policy.played].filter((line) => line.includes("/train"));
      expect(new Set(all).size).toBe(all.length);
      expect(all).toHaveLength(15);
    }
  });
});

/** Groups that teach nothing, as a step would have made them of its first scenarios. */
function flat(count: number) {
  const groups = Array.from({ length: count }, () => []);
  return creditGroups(
    groups,
    groups.map(() => ({ kind: "rewarded", rewards: [] })),
    { estimator: "grpo", stdFloor: 0, spreadFloor: 0 },
  );
}
