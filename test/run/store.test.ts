import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { inflateRawSync } from "node:zlib";
import Database from "better-sqlite3";
import { beforeEach, describe, expect, it } from "vitest";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { FORMAT } from "../../src/core/run/format.js";
import { pack, unpack } from "../../src/core/run/packing.js";
import type { RunRecord, StepRow } from "../../src/core/run/records.js";
import { RunStore } from "../../src/core/run/store.js";
import type { Scenario } from "../../src/core/task/task.js";
import { stepMetricsRow } from "../../src/core/train/metrics.js";
import { RunReader } from "../../src/machine/runs/reader.js";
import { scenarios, trajectoryOf } from "../train/support/fakes.js";

let file: string;
beforeEach(() => {
  file = join(mkdtempSync(join(tmpdir(), "hone-store-")), "run.sqlite");
});

const record: RunRecord = {
  name: "r",
  created: "2031-01-01T00:00:00Z",
  options: { groupSize: 4 },
  contents: { model: "ab" },
};
const stepRow = (step: number): StepRow => ({
  step,
  checkpoint: step,
  adapter: `a${step}`,
  metrics: null,
  timing: null,
});

function begun(): RunStore {
  const store = RunStore.open(file);
  store.begin(record, { checkpoint: null, adapter: null });
  return store;
}

describe("the run store", () => {
  it("keeps integers beyond 2^53 - 1 of calls exactly", () => {
    const call = { name: "find", arguments: { order: 1234567890123456789n } };
    const message = { role: "assistant", content: "", tool_calls: [call] } as const;
    const trajectory = { ...trajectoryOf(), messages: [message] } as unknown as Trajectory;
    expect(unpack(pack(trajectory)).messages).toEqual([message]);
  });

  it("keeps a large reward a number", () => {
    const reward = { reward: 2 ** 60, success: true, parts: { nanoseconds: 1.7e18 } };
    expect(unpack(pack({ ...trajectoryOf(), reward })).reward).toEqual(reward);
  });

  it("keeps what a run is, and where it stands, over reopening", () => {
    const store = begun();
    store.commitStep(stepRow(1), []);
    store.close();
    const again = RunStore.open(file);
    expect(again.record()).toEqual(record);
    expect(again.lastStep()).toEqual(stepRow(1));
    expect(again.steps().map(({ step }) => step)).toEqual([0, 1]);
    again.close();
  });

  it("gives every sequence of a rollout back as it was, and keeps no list of them for a rollout of one", () => {
    const store = begun();
    const one = trajectoryOf({ index: 0, seed: 5 });
    const [second, third] = [6, 7].map((seed) => trajectoryOf({ index: 0, seed }));
    const said = { digest: 9, temperature: 1, truncated: false, foreign: false, seed: 5, drawn: [] };
    // Each was drawn under a grammar of its own, and the engine told of each.
    const toldOf = (other: Trajectory | undefined, number: number) => ({
      ...(other?.tokens as NonNullable<typeof one.tokens>),
      allowed: { sets: [`set ${number}`], at: [number], set: [0] },
      evaluated: { ...said, tokens: number },
    });
    const branches = [second, third].map((other, i) => ({
      messages: [{ role: "user" as const, content: "And?" }],
      tokens: toldOf(other, i + 2),
    }));
    const first = trajectoryOf({ index: 1, seed: 8 });
    const agent = { completions: 4, sequences: 3 };
    const saved = [one, { ...first, tokens: toldOf(first, 1), branches, agent }];
    for (const trajectory of saved) store.saveRollout("train", 1, trajectory);
    expect(store.rollouts("train", 1)).toEqual(saved);
    const { tokens, trajectory } = pack(one);
    expect(Object.keys(JSON.parse(inflateRawSync(trajectory).toString("utf8")))).not.toContain("branches");
    expect(inflateRawSync(tokens as Buffer)).toHaveLength(9 * (one.tokens?.ids.length ?? 0));
    store.close();
  });

  it("gives trajectories back as they were, tokens and logprobs to the bit", () => {
    const store = begun();
    const [first, second] = scenarios as [Scenario, Scenario];
    const saved = [
      trajectoryOf({ scenario: first, index: 1, seed: 5 }),
      trajectoryOf({ scenario: second, index: 0, seed: 6, adapter: "ab" }),
    ];
    const { tokens: _, ...withoutTokens } = trajectoryOf({ scenario: second, index: 1, seed: 7 });
    for (const trajectory of [...saved, withoutTokens]) store.saveRollout("train", 1, trajectory);
    expect(store.rollouts("train", 1)).toEqual([...saved, withoutTokens]);
    expect(store.rollouts("validation", 1)).toEqual([]);
    expect(store.rollouts("train", 2)).toEqual([]);
    store.close();
  });

  it("drops only the rollouts that another adapter played", () => {
    const store = begun();
    for (const [index, adapter] of [null, "old", "new", "new"].entries()) {
      store.saveRollout("train", 1, trajectoryOf({ index, adapter }));
    }
    expect(store.dropForeignRollouts("train", 1, "new")).toBe(2);
    expect(store.rollouts("train", 1).map(({ index }) => index)).toEqual([2, 3]);
    expect(store.dropForeignRollouts("train", 1, null)).toBe(2);
    store.close();
  });

  it("notes what the update was told, together with the step", () => {
    const store = begun();
    store.saveRollout("train", 1, trajectoryOf({ index: 0 }));
    store.saveRollout("train", 1, trajectoryOf({ index: 1 }));
    store.commitStep(stepRow(1), [{ scenario: "s0", member: 1, reward: 0.25, advantage: -1, explanation: "late" }]);
    expect(() =>
      store.commitStep(stepRow(1), [{ scenario: "s0", member: 0, reward: 9, advantage: 9, explanation: null }]),
    ).toThrow();
    store.close();
    const rows = new Database(file)
      .prepare("SELECT training_reward r, advantage a, explanation e FROM rollouts ORDER BY member")
      .all();
    expect(rows).toEqual([
      { r: null, a: null, e: null },
      { r: 0.25, a: -1, e: "late" },
    ]);
  });

  it("can take back a step that nobody has settled, with its lessons and not its rollouts", () => {
    const store = begun();
    store.saveRollout("train", 1, trajectoryOf({ index: 0 }));
    const metrics = stepMetricsRow([], [], 0.1, null);
    const lesson = { scenario: "s0", member: 0, reward: 1, advantage: 1, explanation: "well done" };
    store.commitStep({ ...stepRow(1), metrics }, [lesson], false);
    expect(store.unsettledStep()).toEqual({ ...stepRow(1), metrics });
    expect(store.lastStep().step).toBe(1);
    store.takeBackStep(1);
    expect(store.unsettledStep()).toBeUndefined();
    expect(store.steps().map(({ step }) => step)).toEqual([0]);
    expect(store.rollouts("train", 1)).toHaveLength(1);
    const reader = new Database(file, { readonly: true });
    expect(reader.prepare("SELECT training_reward r, advantage a, explanation e FROM rollouts").get()).toEqual({
      r: null,
      a: null,
      e: null,
    });
    reader.close();

    store.commitStep({ ...stepRow(1), metrics }, [lesson], false);
    const probe = { after: 0.1, before: 0.2, n: 3, moved: 0.1 };
    store.settleStep({ ...stepRow(1), metrics: { ...metrics, probe } });
    expect(store.unsettledStep()).toBeUndefined();
    expect(store.lastStep().metrics?.probe).toEqual(probe);
    expect(() => store.takeBackStep(1)).toThrow("step 1 is settled");
    expect(store.lastStep().step).toBe(1);
    store.close();
  });

  it("keeps each device that computed, with the time it was first seen", () => {
    const store = begun();
    const cpu = { part: "learner", device: "cpu", seen: "2031-01-01T00:00:00Z" } as const;
    const card = { part: "learner", device: "NVIDIA H100", seen: "2031-01-02T00:00:00Z" } as const;
    expect([cpu, card, { ...cpu, seen: "2031-01-03T00:00:00Z" }].map((device) => store.noteDevice(device))).toEqual([
      true,
      true,
      false,
    ]);
    expect(store.devices()).toEqual([cpu, card]);
    store.close();
  });

  it("keeps the cost of judging and what judges said", () => {
    const store = begun();
    expect(store.judgeSpending()).toBeUndefined();
    const spending = { requests: 3, prompt_tokens: 40, completion_tokens: 5, cost: null };
    store.saveJudgeSpending(spending);
    store.saveJudgeSpending({ ...spending, requests: 4, cost: 0.5 });
    expect(store.judgeSpending()).toEqual({ ...spending, requests: 4, cost: 0.5 });
    store.verdicts().put("key", [{ score: 0.5 }]);
    expect(store.verdicts().get("key")).toEqual([{ score: 0.5 }]);
    expect(store.verdicts().get("other")).toBeUndefined();
    store.close();
  });

  it("can be read while it is written", () => {
    const store = begun();
    expect(new Database(file).pragma("journal_mode", { simple: true })).toBe("wal");
    const reader = RunStore.read(file);
    expect(reader.lastStep().step).toBe(0);
    store.commitStep(stepRow(1), []);
    expect(reader.lastStep().step).toBe(1);
    expect(() => reader.commitStep(stepRow(2), [])).toThrow("readonly");
    reader.close();
    store.close();
  });

  it("refuses files that are not its own", () => {
    writeFileSync(file, "this is no database, whatever its name says, and it is long enough to be looked at");
    expect(() => RunStore.open(file)).toThrow(`${file} is not a run of hone`);
    const other = join(file, "..", "mail.db");
    new Database(other).exec("CREATE TABLE emails (id)").close();
    expect(() => RunStore.open(other)).toThrow(`${other} is not a run of hone`);
    expect(() => RunStore.read(join(file, "..", "none.sqlite"))).toThrow("there is no run here");
  });

  it.each([FORMAT - 1, FORMAT + 1])("refuses format %i in one line with the remedy, whoever opens it", (format) => {
    begun().close();
    new Database(file).pragma(`user_version = ${format}`);
    const says = `${file} has format ${format}, and this hone reads format ${FORMAT} only: begin another run with --run NAME, from its adapter with --fork ${join(dirname(file), "checkpoints/NNNN/adapter")}, or use the hone that made it`;
    const openers = [RunStore.open, RunStore.read, RunStore.recordIn, () => RunReader.open(dirname(file))];
    for (const open of openers) expect(() => open(file)).toThrow(says);
  });
});
