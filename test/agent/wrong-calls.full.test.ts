/**
 * An agent whose model calls tools that it has not, and its own with wrong arguments, is trained; each such call has its name and
 * its cause on the page of its rollout, and is counted wherever calls are.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";
import { callErrors } from "../../src/core/run/evaluation.js";
import type { CallRecord } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import type { SeenRollout } from "../../src/machine/runs/reader.js";
import { RunReader } from "../../src/machine/runs/reader.js";
import { refused } from "../../web/src/format.js";
import { ensureLearnerPython } from "../support/python.js";
import { lack, openPage } from "../view/support/browser.js";
import { support } from "./support/playing.js";

const folder = mkdtempSync(join(tmpdir(), "hone-wrong-calls-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function hone(...args: string[]): string {
  const cli = join(packageRoot, "dist/src/cli.js");
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, encoding: "utf8" });
  expect(status, stderr).toBe(0);
  return stdout + stderr;
}

const task = support("three-tools.ts");
const played = ["--task", task, "--threads", "1", "--max-turns", "6", "--gpu", "off"];
let said: string;
let rollouts: SeenRollout[];
let errors: Record<string, number> | undefined;

beforeAll(async () => {
  const python = await ensureLearnerPython();
  const small = ["--steps", "1", "--groups-per-step", "2", "--group-size", "3", "--validate-n", "1"];
  const model = ["--model", "tiny", "--python", python, "--learning-rate", "1e-3"];
  said = hone("train", ...played, ...small, ...model);
  const reader = RunReader.open(join(folder, ".hone/three-tools/models/tiny"));
  rollouts = [...reader.rollouts({ phase: "train" })];
  errors = reader.steps().at(-1)?.metrics?.tool_errors;
  reader.close();
});

const failedIn = (calls: readonly CallRecord[]) =>
  calls.filter(({ outcome }) => ["unknown_tool", "bad_arguments"].includes(outcome));

test("it is trained, and its failed calls are counted", () => {
  const calls = rollouts.flatMap(({ trajectory }) => trajectory.calls);
  const outcomes = new Set(calls.map(({ name, outcome }) => `${name} ${outcome}`));
  expect(outcomes).toContain("search_inbox unknown_tool");
  expect(outcomes).toContain("read_email bad_arguments");
  expect(errors).toEqual(callErrors(rollouts.map(({ trajectory }) => trajectory)));
  expect(said).toMatch(/the model calls tools that the agent has not \(search_inbox[\s\S]*qwen2\.5-0\.5b/);
});

test("its own limit is an end of its own", () => {
  const stopped = rollouts.filter(
    ({ trajectory }) => trajectory.messages.at(-1)?.role === "assistant" && trajectory.turns === 4,
  );
  for (const { end, trajectory } of stopped) {
    const open = trajectory.calls.some(({ turn, outcome }) => turn === 4 && outcome !== "malformed");
    if (open)
      expect([end, trajectory.reason]).toEqual(["open_call", expect.stringMatching(/^the agent ended behind a call/)]);
  }
  expect(rollouts.map(({ end }) => end)).toContain("open_call");
});

test("so does an evaluation", () => {
  const text = hone("eval", ...played, "--model", "tiny", "--n", "1");
  expect(text).toMatch(/calls that did not run\s+(unknown_tool|bad_arguments|malformed) +[1-9]/);
});

test.skipIf(lack)(`each has its name and its cause on the page${lack}`, async () => {
  const file = join(folder, "report.html");
  hone("report", "three-tools/tiny", "--out", file);
  const base = `${pathToFileURL(file).href}#/`;
  const { page, clean } = await openPage(`${base}rollouts?run=0`);
  const grid = page.getByRole("grid", { name: "Rollouts" });
  // Its rows come after its head.
  await grid
    .getByText(/no such tool: [1-9]/)
    .first()
    .waitFor();
  const table = await grid.innerText();
  expect(table).toContain("open call");
  for (const { scenario, member, trajectory } of rollouts) {
    await page.goto("about:blank");
    await page.goto(`${base}group?run=0&phase=train&step=1&scenario=${scenario}&show=${member}`);
    const column = page.getByRole("article").filter({ hasText: `seed ${trajectory.seed}` });
    const marked = column.locator(".call.failed");
    await column.locator(".messages").waitFor();
    const shown = (await marked.allInnerTexts()).map((text) => text.replaceAll(/\s+/g, " "));
    const wanted = trajectory.calls.filter(({ outcome }) => outcome !== "ok");
    expect(shown).toHaveLength(wanted.length);
    for (const { name, outcome } of failedIn(trajectory.calls)) {
      expect(shown).toContainEqual(expect.stringContaining(`→ ${name} ${refused(outcome)}`));
    }
  }
  if (process.env.SCREENSHOT) await page.screenshot({ path: process.env.SCREENSHOT, fullPage: true });
  await page.goto("about:blank");
  await page.goto(`${base}steps?run=0`);
  const failing = page.getByRole("region", { name: "Failed calls" });
  await failing.waitFor();
  expect(await failing.innerText()).toMatch(/search_inbox\s+no such tool/);
  if (process.env.SCREENSHOT) await page.screenshot({ path: `${process.env.SCREENSHOT}-steps.png`, fullPage: true });
  clean("file://");
});
