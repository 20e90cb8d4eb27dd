/** Steps that are played ahead of the update: which policy plays which, whatever the timing, and runs that go on. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { StepSettings } from "../../src/core/learn/types.js";
import type { Run } from "../../src/core/run/run.js";
import { policiesSince, stepsPlayedBy, versionOf } from "../../src/core/train/version.js";
import { trainSteps } from "../../src/trainer/loop.js";
import { FakeLearner, type FakeParts, openFake, partsOf, train } from "./support/fakes.js";

let base: string;
const open: Run[] = [];

beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "hone-overlap-"));
});
afterEach(() => {
  for (const run of open.splice(0)) run.close();
  rmSync(base, { recursive: true });
});

async function opened(name = "run"): Promise<Run> {
  const run = await openFake(join(base, name));
  open.push(run);
  return run;
}

function close(run: Run): void {
  open.splice(open.indexOf(run), 1);
  run.close();
}

const ahead = (staleness: number, steps = 5) => ({ staleness, apart: true, steps, validateEvery: 2, keep: 1 });

/** What follows from seeds and data alone. */
function stateOf(run: Run) {
  const steps = run.store.steps();
  return {
    steps: steps.map(({ timing: _, ...row }) => row),
    validations: run.store.validations().map(({ seconds: _, ...row }) => row),
    rollouts: steps.map(({ step }) => run.store.rollouts("train", step)),
    lines: readFileSync(join(run.folder, "metrics.jsonl"), "utf8")
      .trimEnd()
      .split("\n")
      .map((line) => (JSON.parse(line) as { step: number }).step),
  };
}

/** A learner that waits before it ends an update, and keeps what it was asked. */
function slowLearner(asked: StepSettings[], wait: () => Promise<unknown>): NonNullable<FakeParts["learner"]> {
  return (from) => {
    const learner = new FakeLearner(from);
    return {
      close: () => learner.close(),
      step: async (settings) => {
        asked.push(settings);
        await wait();
        return learner.step(settings);
      },
    };
  };
}

const ticks = (count: number) => async () => {
  for (let i = 0; i < count; i++) await new Promise((resolve) => setImmediate(resolve));
};

describe("the version that plays a step", () => {
  it("is of so many steps before, from the start on", () => {
    expect([1, 2, 3, 4].map((step) => versionOf(step, 0))).toEqual([0, 1, 2, 3]);
    expect([1, 2, 3, 4].map((step) => versionOf(step, 1))).toEqual([0, 0, 1, 2]);
    expect([1, 2, 3, 4].map((step) => versionOf(step, 2))).toEqual([0, 0, 0, 1]);
  });

  it.each([0, 1, 2, 3])("plays each step once, with --staleness %i", (staleness) => {
    for (const steps of [1, 2, 5, 9]) {
      const played = Array.from({ length: steps + 1 }, (_, version) => stepsPlayedBy(version, staleness, steps));
      expect(played.flat()).toEqual(Array.from({ length: steps }, (_, i) => i + 1));
      for (const [version, its] of played.entries()) {
        for (const step of its) expect(versionOf(step, staleness)).toBe(version);
      }
    }
  });

  it("is as many policies old as there were updates since", () => {
    const rows = [null, 1, 1, 3].map((checkpoint, step) => ({ step, checkpoint }));
    expect([0, 1, 2, 3].map((version) => policiesSince(rows, version))).toEqual([2, 1, 1, 0]);
  });
});

describe("training with --staleness", () => {
  it.each([1, 2])("%i plays each step with the policy of so many steps before, and says so", async (staleness) => {
    const run = await opened();
    const given = await train(partsOf(run, { settings: ahead(staleness) }));
    const steps = run.store.steps();
    expect(steps).toHaveLength(6);
    expect(given).toEqual(steps.slice(1));
    for (const { step, metrics } of steps.slice(1)) {
      const version = versionOf(step, staleness);
      const players = new Set(run.store.rollouts("train", step).map(({ player }) => player.adapter));
      expect([...players]).toEqual([steps[version]?.adapter]);
      expect(metrics).toMatchObject({ version, staleness: step - 1 - version });
    }
    expect(run.store.validations().map(({ step, checkpoint }) => [step, checkpoint])).toEqual([
      [0, null],
      [2, 2],
      [4, 4],
      [5, 5],
    ]);
    expect(stateOf(run).lines).toEqual([1, 2, 3, 4, 5]);
    expect(run.store.unsettledStep()).toBeUndefined();
  });

  it("left early ends what is under way, and goes on from there with the same steps", async () => {
    const run = await opened();
    const seen: number[] = [];
    for await (const { step } of trainSteps(partsOf(run, { settings: ahead(1) }))) {
      seen.push(step);
      if (step === 2) break;
    }
    const rest = await train(partsOf(run, { settings: ahead(1) }));
    expect([...seen, ...rest.map(({ step }) => step)]).toEqual([1, 2, 3, 4, 5]);
    const whole = await opened("whole");
    await train(partsOf(whole, { settings: ahead(1) }));
    expect(stateOf(run)).toEqual(stateOf(whole));
  });

  it("plays the next step while the learner computes, and never sleeps", async () => {
    const run = await opened();
    const ticked: string[] = [];
    const asked: StepSettings[] = [];
    // An update ends when all of the next step has been played.
    const untilPlayed = async () => {
      const next = asked.length + 1;
      const count = () => parts.policy.played.filter((name) => name.startsWith(`played 3/train ${next} `)).length;
      while (next <= 4 && count() < 6) await new Promise((resolve) => setImmediate(resolve));
    };
    const parts = partsOf(run, {
      tick: (name) => ticked.push(name),
      learner: slowLearner(asked, untilPlayed),
      settings: ahead(1, 4),
    });
    await train(parts);
    expect(run.store.lastStep().step).toBe(4);
    expect(ticked.filter((name) => name === "sleep" || name === "wake")).toEqual([]);
  });

  it("tells the learner which policy played, and which others might have", async () => {
    const run = await opened();
    const asked: StepSettings[] = [];
    await train(partsOf(run, { learner: slowLearner(asked, ticks(0)), settings: ahead(1, 4) }));
    const folder = (step: number) => ({ checkpoint: run.checkpoints.pathOf(step) });
    const about = asked.map(({ playedBy, earlier, previous }) => ({ playedBy, earlier, previous }));
    // Each deals its groups to mini-batches anew.
    expect(new Set(asked.map(({ seed }) => seed)).size).toBe(4);
    expect(about).toEqual([
      { playedBy: undefined, earlier: undefined, previous: undefined },
      { playedBy: { checkpoint: null }, earlier: undefined, previous: undefined },
      { playedBy: folder(1), earlier: { checkpoint: null }, previous: undefined },
      { playedBy: folder(2), earlier: { checkpoint: null }, previous: folder(1) },
    ]);
  });

  it("comes to the same whether playing or learning takes longer", async () => {
    const states = [];
    for (const [i, wait] of [0, 60].entries()) {
      const run = await opened(`run-${i}`);
      const parts = partsOf(run, { learner: slowLearner([], ticks(wait)), settings: ahead(2) });
      if (wait === 0) parts.policy.pace = ticks(10);
      await train(parts);
      states.push(stateOf(run));
    }
    expect(states[1]).toEqual(states[0]);
  });

  it("goes on to the same after it was stopped anywhere, and plays no rollout twice", async () => {
    const whole = await opened("whole");
    const first = partsOf(whole, { settings: ahead(1) });
    await train(first);
    for (const at of [1, 4, 7, 13, 17, 22, 26, 31]) {
      const name = `stopped-${at}`;
      const run = await opened(name);
      const stop = new AbortController();
      let played = 0;
      const tick = (what: string) => {
        if (what.startsWith("played") && ++played === at) stop.abort();
      };
      const parts = partsOf(run, { tick, settings: ahead(1), change: { signal: stop.signal } });
      await expect(train(parts)).rejects.toThrow(/interrupted/);
      await parts.updater.close();
      close(run);
      const again = await opened(name);
      const rest = partsOf(again, { settings: ahead(1) });
      await train(rest);
      expect(stateOf(again)).toEqual(stateOf(whole));
      expect([...parts.policy.played, ...rest.policy.played].sort()).toEqual([...first.policy.played].sort());
    }
  });

  it("takes back a step whose policy the engine does not play, and what was made from it", async () => {
    const run = await opened();
    let updates = 0;
    const answer = () => (++updates === 3 ? ({ applied: false, skipped: "loss" } as const) : {});
    const learner = (from: string | undefined) => new FakeLearner(from, undefined, answer);
    const parts = partsOf(run, { settings: ahead(2), learner });
    parts.policy.reading = ({ path }) => ({ after: path.includes("0002") ? 3 : 0, before: 3, n: 1, moved: null });
    parts.policy.pace = ticks(10);
    const use = parts.policy.use.bind(parts.policy);
    parts.policy.use = async (adapter) => {
      // Step 3 goes on with that adapter, since its own update changes nothing.
      while (adapter?.path.includes("0002") && run.store.lastStep().step < 3) await ticks(1)();
      return use(adapter);
    };
    await expect(train(parts)).rejects.toThrow("does not play the adapter of step 2");
    expect(run.store.lastStep().step).toBe(1);
    await parts.updater.close();
    close(run);
    const again = await opened();
    await train(partsOf(again, { settings: ahead(2) }));
    const whole = await opened("whole");
    await train(partsOf(whole, { settings: ahead(2) }));
    expect(stateOf(again).steps.map(({ adapter }) => adapter)).toEqual(
      stateOf(whole).steps.map(({ adapter }) => adapter),
    );
  });

  it("keeps the update that runs when the engine fails, and says why it failed", async () => {
    const run = await opened();
    const parts = partsOf(run, { learner: slowLearner([], ticks(60)), settings: ahead(1) });
    const play = parts.policy.play.bind(parts.policy);
    parts.policy.play = async (request) => {
      if (request.step === 3) throw new Error("the engine is gone");
      return play(request);
    };
    await expect(train(parts)).rejects.toThrow("the engine is gone");
    expect(run.store.lastStep().step).toBe(2);
  });
});
