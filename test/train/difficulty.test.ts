/** Scenarios that are too easy or too hard for the start's model are set aside before the first step, and stay so. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { Run } from "../../src/core/run/run.js";
import type { Scenario } from "../../src/core/task/task.js";
import { difficultyOf, difficultyText } from "../../src/insight/report/difficulty.js";
import { withinDifficulty } from "../../src/trainer/difficulty.js";
import { ScenarioSampler } from "../../src/trainer/sampler.js";
import { type FakeParts, openFake, partsOf, train } from "./support/fakes.js";

let folder: string;
let run: Run;
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "hone-difficulty-"));
  run = await openFake(join(folder, "run"));
});
afterEach(() => {
  run.close();
  rmSync(folder, { recursive: true });
});

const TRAIN = 40;
const scenarios: readonly Scenario[] = Array.from({ length: TRAIN + 4 }, (_, i) => ({
  id: `s${i}`,
  split: i < TRAIN ? "train" : "test",
  question: `What is ${i}?`,
}));
const sampler = new ScenarioSampler(scenarios, { groupsPerStep: 2, seed: 3 });

const wanted = {
  difficulty: "0.1..0.9",
  groupSize: 2,
  groupsPerStep: 2,
  steps: 5,
  refill: 0,
  rest: 0,
  staleness: 0,
};
const ids = (all: readonly Scenario[]) => all.map(({ id }) => id);

/** Measures, and takes the steps. */
async function go(change: Partial<typeof wanted> = {}, fake: FakeParts = {}) {
  const asked = { ...wanted, ...change };
  const { steps, groupSize, refill } = asked;
  const said: string[] = [];
  const parts = partsOf(run, { ...fake, settings: { steps, groupSize, refill } });
  parts.policy.reward = "chance";
  const view = { ...parts.view, log: (text: string) => void said.push(text) };
  const within = await withinDifficulty({ ...parts, view }, sampler, asked);
  await train({ ...parts, scenarios: within });
  const measuring = parts.policy.played.filter((line) => line.startsWith("played 3/train 0 "));
  return { within: within as ScenarioSampler, said, measuring, policy: parts.policy };
}

/** Scenarios by the share of their rollouts that succeeded, from what the store has of them. */
function shares(): Map<string, number> {
  const all = run.store.rollouts("train", 0);
  return new Map(
    run.store.difficulty().map(({ scenario }) => {
      const of = all.filter((one) => one.scenario.id === scenario);
      expect(of).toHaveLength(2);
      return [scenario, of.filter(({ reward }) => reward.success).length / 2];
    }),
  );
}

const trained = (steps: number) =>
  Array.from({ length: steps }, (_, i) => [
    ...new Set(run.store.rollouts("train", i + 1).map(({ scenario }) => scenario.id)),
  ]).flat();

describe("--difficulty", () => {
  it("plays only what the steps need, in the order of the first epoch, and trains on those that are within", async () => {
    const { measuring, said } = await go();
    const played = shares();
    const order = ids(sampler.ofEpoch(0));
    expect([...played.keys()]).toEqual(order.slice(0, played.size));
    expect(played.size).toBeLessThan(TRAIN);
    expect(measuring).toHaveLength(2 * played.size);
    const within = [...played].filter(([, share]) => share >= 0.1 && share <= 0.9).map(([id]) => id);
    expect(within.length).toBeLessThan(played.size);
    expect(new Set(trained(5))).toEqual(new Set(within.slice(0, 10)));
    // The last one that is within was needed.
    expect(within.length).toBeLessThanOrEqual(11);
    expect(said[0]).toBe(
      "--difficulty 0.1..0.9: first 20 to 80 rollouts, 2 of a scenario, until 10 scenarios are found or none is left; a training step plays 4",
    );
    expect(said.at(-1)).toBe(difficultyText(difficultyOf(run.store.difficulty(), "0.1..0.9") as never));
    expect(run.store.rollouts("train", 0).every(({ player }) => player.adapter === null)).toBe(true);
  });

  it("measures nothing again when the run goes on, and more with the start's model when it gets more steps", async () => {
    await go();
    const first = run.store.difficulty();
    const before = trained(5);
    expect(run.store.lastStep().adapter).not.toBeNull();
    expect((await go()).measuring).toEqual([]);
    const { measuring, within } = await go({ steps: 8 });
    expect(measuring.length).toBeGreaterThan(0);
    expect(measuring.every((line) => line.startsWith("played 3/train 0 null "))).toBe(true);
    expect(run.store.difficulty().slice(0, first.length)).toEqual(first);
    expect(trained(8).slice(0, 10)).toEqual(before);
    expect(new Set(trained(8)).size).toBe(16);
    const chosen = Array.from({ length: 8 }, (_, i) => ids(within.next(i + 1, [], 0)));
    expect(chosen.flat().sort()).toEqual(trained(8).sort());
  });

  it("interrupted at any moment goes on with the rollouts that it has, to the same scenarios", async () => {
    await go();
    const whole = { difficulty: run.store.difficulty(), trained: trained(5) };
    const total = 2 * whole.difficulty.length;
    for (const after of [1, 7, total - 1]) {
      run.close();
      run = await openFake(join(folder, `after-${after}`));
      const abort = new AbortController();
      let count = 0;
      const tick = (name: string) => {
        if (name.startsWith("played") && ++count === after) abort.abort();
      };
      const interrupted = go({}, { tick, change: { signal: abort.signal } });
      await expect(interrupted).rejects.toThrow("interrupted while difficulty was measured; what was finished is kept");
      expect(run.store.rollouts("train", 0)).toHaveLength(after);
      const { measuring } = await go();
      expect(measuring).toHaveLength(total - after);
      expect({ difficulty: run.store.difficulty(), trained: trained(5) }).toEqual(whole);
    }
  });

  it("goes round again when few are within, and draws refills from those alone", async () => {
    const { within } = await go({ steps: 13, refill: 2 });
    const played = shares();
    expect(played.size).toBe(TRAIN);
    const kept = [...played].filter(([, share]) => share > 0 && share < 1).map(([id]) => id);
    expect(kept.length).toBeLessThan(26);
    expect(trained(13).length).toBeGreaterThan(26);
    expect(trained(13).filter((id) => !kept.includes(id))).toEqual([]);
    const steps = Math.floor(kept.length / 2);
    const epoch = Array.from({ length: steps }, (_, i) => ids(within.next(i + 1, [], 0)));
    expect(new Set(epoch.flat()).size).toBe(2 * steps);
    expect(kept).toEqual(expect.arrayContaining(epoch.flat()));
  });

  it("refuses when too few are left, and says how the others were", async () => {
    const parts = partsOf(run);
    parts.policy.reward = 1;
    await expect(withinDifficulty(parts, sampler, wanted)).rejects.toThrow(
      "--difficulty 0.1..0.9 leaves 0 scenarios, and a step plays 2 (--groups-per-step): 0 of 40 measured scenarios are within difficulty 0.1..0.9; set aside: 40 more often.",
    );
    expect(difficultyOf(run.store.difficulty(), undefined)).toBeNull();
  });

  it("stops when the learner refuses meanwhile", async () => {
    const parts = partsOf(run);
    await expect(withinDifficulty(parts, sampler, wanted, Promise.reject(new Error("no PyTorch")))).rejects.toThrow(
      "no PyTorch",
    );
  });

  it("begins anew with what it is asked for when the run has no step yet", () => {
    run.store.noteDifficulty([{ scenario: "s1", n: 4, successes: 2 }]);
    run.store.forget();
    expect(run.store.difficulty()).toEqual([]);
  });

  it("without it nothing is played before the first step", async () => {
    const parts = partsOf(run);
    const all = await withinDifficulty(parts, sampler, { ...wanted, difficulty: undefined });
    expect(all.next(1, [], 0)).toEqual(sampler.next(1, [], 0));
    expect(parts.policy.played).toEqual([]);
  });
});
