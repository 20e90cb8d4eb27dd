import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { evaluate } from "../../src/core/run/evaluation.js";
import { type MetricsLine, metricsLine } from "../../src/core/run/records.js";
import { RunStore } from "../../src/core/run/store.js";
import { stepMetricsRow } from "../../src/core/train/metrics.js";
import { figuresOf, validationFigures, withZeros } from "../../src/insight/track/figures.js";
import { Sample } from "../../src/insight/track/sample.js";
import { trajectoryOf } from "../train/support/fakes.js";
import { makeRun } from "../view/support/run.js";

/** Numbers at any depth, without their names. */
function numbersIn(value: unknown): number[] {
  if (typeof value === "number") return Number.isFinite(value) ? [value] : [];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(numbersIn) : [];
}
const sorted = (values: readonly number[]) => [...values].sort((a, b) => a - b);

const folder = makeRun(mkdtempSync(join(tmpdir(), "hone-figures-")), "r", { steps: 3, lost: 2 });
const store = RunStore.read(join(folder, "run.sqlite"));
const lines = store.steps().slice(1).map(metricsLine);
const [validation] = store.validations();
store.close();

it("every figure of a step is a point of a curve, once", () => {
  for (const line of lines) {
    const { step: _, ...others } = line;
    const { "train/skipped": skipped, ...figures } = figuresOf(line);
    const reasons = Object.keys(figures).filter((name) => name.startsWith("skipped/"));
    expect(skipped).toBe(line.skipped === null ? 0 : 1);
    expect(reasons).toEqual(line.skipped === null ? [] : [`skipped/${line.skipped}`]);
    const rest = Object.entries(figures).flatMap(([name, value]) => (reasons.includes(name) ? [] : [value]));
    expect(sorted(rest)).toEqual(sorted(numbersIn(others)));
  }
  expect(lines.map(({ skipped }) => skipped)).toContain("unrewarded");
});

it("they stand in charts by what they are of", () => {
  const [line] = lines;
  expect(line && figuresOf(line)).toMatchObject({
    "train/reward": line?.reward,
    "train/mismatch/mean": line?.mismatch?.mean,
    "ends/answered": line?.ends.answered,
    "seconds/update": line?.seconds.update,
    "memory/peak": line?.memory?.peak,
  });
});

it("so do those of a validation", () => {
  const figures = validation && validationFigures(validation);
  expect(figures).toMatchObject({
    "val/success": validation?.result.success,
    "val/low": validation?.result.low,
    "val/seconds": validation?.seconds,
    "val/kinds/who/n": validation?.result.kinds.who?.n,
  });
});

it("of no rollouts there are no shares and no means, and no curve falls to 0", () => {
  const metrics = stepMetricsRow([], [], 1e-4, null);
  const step = Object.keys(figuresOf({ ...(lines[0] as MetricsLine), ...metrics }));
  const held = Object.keys(validationFigures({ result: evaluate([], 4), seconds: 2 }));
  const means = ["reward", "success", "success_low", "success_high", "turns", "completion_tokens", "low", "high"];
  expect(means.filter((name) => step.includes(`train/${name}`) || held.includes(`val/${name}`))).toEqual([]);
  expect([step, held]).toEqual([expect.arrayContaining(["train/rollouts"]), expect.arrayContaining(["val/n"])]);
});

it("a count that is not named any more is 0, and says nothing of a row that has no such counts", () => {
  const known = new Set<string>();
  const train = { "train/rollouts": 8 };
  expect(withZeros({ ...train, "ends/deadline": 2, "seconds/update": 1 }, known)).not.toHaveProperty([
    "val/ends/deadline",
  ]);
  expect(withZeros({ ...train, "ends/answered": 8 }, known)).toEqual({
    ...train,
    "ends/answered": 8,
    "ends/deadline": 0,
  });
  expect(withZeros({ "val/n": 4, "val/ends/answered": 4 }, known)).toEqual({ "val/n": 4, "val/ends/answered": 4 });
  expect(withZeros({ "val/n": 4 }, known)).toEqual({ "val/n": 4, "val/ends/answered": 0 });
});

it("a figure that is not finite is no point", () => {
  const [line] = lines;
  const figures = line && figuresOf({ ...line, entropy: Number.NaN, loss: null, grad_norm: Number.POSITIVE_INFINITY });
  expect(Object.keys(figures ?? {})).not.toEqual(expect.arrayContaining(["train/entropy"]));
  for (const name of ["train/entropy", "train/loss", "train/grad_norm"]) expect(figures).not.toHaveProperty([name]);
});

it("a sample of a step's rollouts has four of them, any, with what they were trained for", () => {
  const group = Array.from({ length: 32 }, (_, index) => trajectoryOf({ index, seed: index }));
  const tables = [1, 2, 3].map((step) => {
    const sample = new Sample("r", step);
    for (const one of group) sample.add(one);
    sample.rewarded(
      group,
      group.map(({ index }) => index / 100),
    );
    return sample.table();
  });
  const conversations = tables.map((table) => table?.rows.map((row) => String(row.at(-1))));
  expect(conversations.map((rows) => rows?.length)).toEqual([4, 4, 4]);
  expect(conversations[0]).not.toEqual(conversations[1]);
  const place = tables[0]?.columns.indexOf("training reward") ?? -1;
  for (const row of tables[0]?.rows ?? []) {
    const seed = Math.round(100 * Number(row[place]));
    expect(row.at(-1)).toContain(`seed ${seed}`);
  }
});
