/**
 * A step between its commit and the first look at the engine with its adapter: neither a lack of memory nor the end of the
 * process costs its update, and an adapter that is not what it should be does not stay.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { EngineOutOfMemory } from "../../src/core/engine/errors.js";
import type { Run } from "../../src/core/run/run.js";
import { HoneError } from "../../src/core/util/errors.js";
import { FakeLearner, type FakeParts, type FakePolicy, openFake, partsOf, silent, train } from "./support/fakes.js";
import { stateOf } from "./support/state.js";

const settings = { steps: 3, validateEvery: 0, keep: 9 };
const fine = { after: 0.0001, before: 0.01, n: 50, moved: null };
const stale = { after: 0.01, before: 0.0001, n: 50, moved: null };

let base: string;
let folder: string;
let open: Run | undefined;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "hone-settle-"));
  folder = join(base, "run");
});
afterEach(() => {
  close();
  rmSync(base, { recursive: true });
});

function close(): void {
  open?.close();
  open = undefined;
}

/** Goes on with the run; returns what it stopped with, if it did. */
async function goOn(
  change: (policy: FakePolicy) => void = () => undefined,
  at = folder,
  learner?: NonNullable<FakeParts["learner"]>,
) {
  const shown: number[] = [];
  const happened: string[] = [];
  open = await openFake(at);
  const view = { ...silent, step: ({ step }: { step: number }) => void shown.push(step) };
  const parts = partsOf(open, {
    settings,
    change: { view },
    tick: (name) => happened.push(name),
    ...(learner && { learner }),
  });
  parts.policy.reading = () => fine;
  change(parts.policy);
  const ended = await train(parts).then(
    () => undefined,
    (error: Error) => error,
  );
  const steps = open.store.steps().map(({ step }) => step);
  const unsettled = open.store.unsettledStep()?.step;
  await parts.updater.close();
  close();
  return { ended, steps, unsettled, shown, happened, played: parts.policy.played };
}

const lines = () =>
  readFileSync(join(folder, "metrics.jsonl"), "utf8")
    .split("\n")
    .filter(Boolean)
    .map((line) => JSON.parse(line).step);

/** The n-th time the policy wakes, it fails. */
const failing = (n: number, error: Error) => (policy: FakePolicy) => {
  let times = 0;
  policy.waking = () => {
    if (++times === n) throw error;
  };
};

/** All of a run that was never interrupted. */
async function undisturbed() {
  await goOn(undefined, join(base, "whole", "run"));
  return stateOf(join(base, "whole", "run"));
}

/** The same without what was set aside on the way. */
function stateNow() {
  const { checkpoints, ...state } = stateOf(folder);
  return {
    ...state,
    checkpoints: Object.fromEntries(Object.entries(checkpoints).filter(([name]) => /^\d/.test(name))),
  };
}

const full = new EngineOutOfMemory("no memory for one sequence; give a lower --context");

describe("a step whose update is done", () => {
  it("is committed before the engine wakes, which then loads the new adapter", async () => {
    const { happened } = await goOn();
    const after = happened.slice(happened.indexOf("learner ends"));
    expect(after.slice(1, 4)).toEqual(["wake", "use", "probe"]);
    const waking = await goOn(
      (policy) => {
        policy.waking = () => expect(open?.store.lastStep().step).toBe(open?.checkpoints.list().at(-1));
      },
      join(base, "other"),
    );
    expect(waking.ended).toBeUndefined();
  });

  it("is kept when there is no memory to wake the engine, and the next start goes on after it", async () => {
    const stopped = await goOn(failing(2, full));
    expect(stopped.ended).toBeInstanceOf(HoneError);
    expect(stopped.ended?.message).toBe(
      "no memory for one sequence; give a lower --context. Step 2 is kept: the same command goes on after it",
    );
    expect(stopped).toMatchObject({ steps: [0, 1, 2], unsettled: 2, shown: [1] });
    expect(lines()).toEqual([1]);

    const { ended, steps, unsettled, shown, happened, played } = await goOn();
    expect(ended).toBeUndefined();
    expect({ steps, unsettled, shown }).toEqual({ steps: [0, 1, 2, 3], unsettled: undefined, shown: [2, 3] });
    expect(happened.filter((name) => name === "learner begins")).toHaveLength(1);
    expect(played.filter((name) => / 2 /.test(name))).toEqual([]);
    expect(lines()).toEqual([1, 2, 3]);
    expect(stateOf(folder)).toEqual(await undisturbed());
  });

  it("is kept by a start that finds no memory either", async () => {
    await goOn(failing(2, full));
    const again = await goOn((policy) => {
      policy.use = () => Promise.reject(full);
    });
    expect(again).toMatchObject({ ended: full, steps: [0, 1, 2], unsettled: 2 });
    expect((await goOn()).steps).toEqual([0, 1, 2, 3]);
    expect(stateOf(folder)).toEqual(await undisturbed());
  });

  it("is taken back when the engine does not play its adapter, and taken again", async () => {
    let looks = 0;
    const stopped = await goOn((policy) => {
      // Of step 1, again after the validation of the start, of step 2.
      policy.reading = () => (++looks === 3 ? stale : fine);
    });
    expect(stopped.ended?.message).toMatch(
      /^the engine still plays the adapter before step 2: .*; the step was taken back\.\s/,
    );
    expect(stopped).toMatchObject({ steps: [0, 1], unsettled: undefined, shown: [1] });
    expect(lines()).toEqual([1]);
    const database = new Database(join(folder, "run.sqlite"), { readonly: true });
    const left = database
      .prepare(
        "SELECT count(*) rollouts, count(training_reward) + count(advantage) credits FROM rollouts WHERE phase = 'train' AND step = 2",
      )
      .get();
    database.close();
    expect(left).toEqual({ rollouts: 6, credits: 0 });

    const again = await goOn();
    expect(again).toMatchObject({ ended: undefined, steps: [0, 1, 2, 3], shown: [2, 3] });
    expect(again.played.filter((name) => / 2 /.test(name))).toEqual([]);
    expect(lines()).toEqual([1, 2, 3]);
    expect(stateNow()).toEqual(await undisturbed());
  });

  it("is taken back at the next start when only that one sees it, and mended by the start after", async () => {
    // As killed between commit and probe.
    await goOn(failing(2, new Error("killed")));
    expect(lines()).toEqual([1]);
    const probe = join(folder, "checkpoints", "0002", "adapter.gguf");
    const wrong = await goOn((policy) => {
      policy.reading = ({ path }) => (path === probe ? stale : fine);
    });
    expect(wrong.ended?.message).toMatch(/before step 2: .*; the step was taken back/);
    expect(wrong).toMatchObject({ steps: [0, 1], unsettled: undefined, played: [], shown: [] });
    expect(lines()).toEqual([1]);

    expect((await goOn()).shown).toEqual([2, 3]);
    expect(lines()).toEqual([1, 2, 3]);
    expect(stateNow()).toEqual(await undisturbed());
  });

  it("is taken back when its adapter cannot be loaded at all", async () => {
    const stopped = await goOn((policy) => {
      const use = policy.use.bind(policy);
      policy.use = async (adapter) => {
        if (adapter?.path.includes("0002")) throw new HoneError("not an adapter of this model");
        return use(adapter);
      };
    });
    expect(stopped).toMatchObject({ steps: [0, 1], unsettled: undefined });
    await goOn();
    expect(stateNow()).toEqual(await undisturbed());
  });

  it("stays once it was seen to be played: what is wrong then is not its update", async () => {
    open = await openFake(folder);
    const first = partsOf(open, { settings: { ...settings, steps: 1 } });
    first.policy.reading = () => fine;
    await train(first);
    close();
    const wrong = await goOn((policy) => {
      policy.reading = () => stale;
    });
    expect(wrong.ended?.message).toContain("before checkpoint 1");
    expect(wrong).toMatchObject({ steps: [0, 1], unsettled: undefined });
  });

  it("that changed nothing needs no second look", async () => {
    const infinite = { applied: false, skipped: "gradient" } as const;
    const stopped = await goOn(failing(1, full), folder, (from) => new FakeLearner(from, undefined, () => infinite));
    expect(stopped).toMatchObject({ steps: [0, 1], unsettled: undefined });
    expect(stopped.ended?.message).toContain("Step 1 is kept");
    await goOn();
    expect(lines()).toEqual([1, 2, 3]);
  });

  it("has no update where no group has a signal: the engine stays awake", async () => {
    const { ended, happened, steps } = await goOn((policy) => {
      policy.reward = 1;
    });
    expect({ ended, steps }).toEqual({ ended: undefined, steps: [0, 1, 2, 3] });
    expect(happened).not.toContain("sleep");
  });

  it("has one line in metrics.jsonl also when the end came while it was written", async () => {
    await goOn();
    const whole = readFileSync(join(folder, "metrics.jsonl"), "utf8");
    writeFileSync(join(folder, "metrics.jsonl"), whole.slice(0, -40));
    await goOn();
    expect(lines()).toEqual([1, 2, 3]);
  });
});
