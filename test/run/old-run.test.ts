/** A run folder and a trajectory file from before options and metrics were renamed are read under today's names. */
import { cpSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeEach, expect, it } from "vitest";
import { metricsCsv } from "../../src/report/metrics-csv.js";
import { readTrajectories } from "../../src/rollout/index.js";
import { beginRun } from "../../src/run/begin.js";
import { RunReader } from "../../src/run/reader.js";
import { metricsLine, type StepMetricsRow } from "../../src/run/records.js";
import { settingsOf } from "../../src/run/settings.js";
import { defineTask } from "../../src/tasks/index.js";
import { packageRoot } from "../../src/util/paths.js";
import { writeReport } from "../../src/view/report-file.js";
import { openRuns } from "../../src/view/runs.js";

const support = join(packageRoot, "test/run/support");
const home = mkdtempSync(join(tmpdir(), "hone-old-run-"));
const folder = join(home, "vowels/models/before");
const task = defineTask({
  name: "vowels",
  scenarios: () => [],
  prompt: () => [],
  reward: () => ({ reward: 0, success: false, parts: {} }),
});

beforeEach(() => {
  rmSync(folder, { recursive: true, force: true });
  cpSync(join(support, "old-run"), folder, { recursive: true });
});
afterAll(() => rmSync(home, { recursive: true, force: true }));

const oldLine = () => JSON.parse(readFileSync(join(support, "old-run/metrics.jsonl"), "utf8"));

it("is read: its options, its steps and its rollouts", async () => {
  const { gap, groups_lost, ...same } = oldLine();
  expect(gap.mean).toBeGreaterThan(0);
  const reader = RunReader.open(folder);
  const { options } = reader.record();
  expect(options).toMatchObject({ groupSize: 2, groupsPerStep: 2, difficultyRollouts: 2 });
  expect(Object.keys(options)).not.toContain("group");
  const [, step] = reader.steps();
  const line = step && metricsLine(step);
  expect(line).toMatchObject({ ...same, mismatch: gap, groups_no_verdict: groups_lost, agent: {}, entropy: null });
  // What was called so was of the batch alone.
  expect(line?.entropy_trained).toBe(same.entropy);
  const [names = ""] = metricsCsv(reader.steps(), reader.validations()).split("\n");
  expect(names.split(",")).toEqual(expect.arrayContaining(["mismatch.mean", "mismatch.p99", "mismatch.max"]));
  expect([...reader.rollouts({ phase: "train", from: 1 })]).toHaveLength(4);
  expect(await reader.checkpoints()).toEqual([{ step: 1, damage: null }]);
  reader.close();
});

it("is shown as a page", async () => {
  const file = join(home, "page.html");
  const summary = await writeReport(openRuns({ home, project: undefined }, ["vowels/before"]), file, 10);
  expect(summary.rollouts).toBeGreaterThanOrEqual(8);
  const read = openRuns({ home, project: undefined }, ["vowels/before"])[0]?.reader;
  expect(read?.record().options).toMatchObject({ groupSize: 2 });
});

it("goes on with the same settings, and with no others, and writes today's names", async () => {
  const reader = RunReader.open(folder);
  const record = reader.record();
  const [, last] = reader.steps();
  reader.close();
  const settings = settingsOf(record);
  const begin = (more: object) =>
    beginRun({ folder, settings: { ...settings, ...more }, contents: record.contents, task, fork: undefined });
  await expect(begin({ groupSize: 3 })).rejects.toThrow("--group-size 3 (was 2)");
  const run = await begin({ steps: 2 });
  expect(run.store.lastStep()).toMatchObject({ step: 1, checkpoint: 1 });
  run.store.commitStep({ ...run.store.lastStep(), step: 2, metrics: last?.metrics as StepMetricsRow }, []);
  await run.close();
  const again = RunReader.open(folder);
  expect(again.record().options).toMatchObject({ groupSize: 2, groupsPerStep: 2, steps: 2 });
  const [, one, two] = again.steps().map(({ metrics }) => metrics);
  expect(two).toEqual(one);
  again.close();
});

it("and a trajectory file is read", async () => {
  const read = [];
  for await (const trajectory of readTrajectories(join(support, "old-rollouts.jsonl"))) read.push(trajectory);
  expect(read.map(({ id }) => id)).toHaveLength(4);
  expect(read[0]).toMatchObject({ task: "vowels", end: "turn_limit", player: { kind: "engine" } });
});
