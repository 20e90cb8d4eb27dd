/** The page that `yarn eval --page` writes, in a browser. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { evaluate } from "../../src/core/run/evaluation.js";
import { Random } from "../../src/core/util/random.js";
import { type Column, type Matrix, pairsOf } from "../../src/insight/report/matrix.js";
import { writeEvaluation } from "../../src/insight/view/evaluation-file.js";
import { lack, openPage } from "./support/browser.js";

const HOSTILE = "</script><script>window.hostile=1</script><img src=x onerror='window.hostile=2'>\u202egnp";
const folder = mkdtempSync(join(tmpdir(), "hone-eval-page-"));
const file = join(folder, "deep/eval.html");
const questions = Array.from({ length: 300 }, (_, i) => ({
  id: `q${i}`,
  question: `Who wrote mail ${i}?`,
  kind: "who",
}));

function column(name: string, share: number, more: Partial<Column> = {}): Column {
  const random = new Random(name);
  const rollouts = questions.map(({ id }) => {
    const success = random.chance(share);
    const reward = { reward: success ? 1 : 0, success, parts: {} };
    const scenario = { id, split: "test", question: "" };
    return { scenario, reward, end: success ? "answered" : "turn_limit", turns: 3, completionTokens: 40, calls: [] };
  }) as unknown as Trajectory[];
  const outcomes = rollouts.map(({ scenario, reward: { success, reward }, end, turns, completionTokens: tokens }) => ({
    scenario: scenario.id,
    success,
    reward,
    end,
    turns,
    tokens,
  }));
  const effort = { rollouts: 300, promptTokens: 90_000, completionTokens: 12_000, cost: null, seconds: 61 };
  const result = { figures: evaluate(rollouts, 0), effort, outcomes };
  return { name, title: name, kind: "model", step: null, of: name, problem: null, result, ...more };
}

const NONE = { rollouts: 0, promptTokens: 0, completionTokens: 0, cost: null, seconds: 1 };
const columns = [
  column("base", 0.35, { kind: "checkpoint" }),
  column("best (step 30)", 0.8, { kind: "checkpoint", step: 30 }),
  column(`api${HOSTILE}`, 0.75, { kind: "api" }),
  column("unjudged", 0, { result: { figures: evaluate([], 300), effort: NONE, outcomes: [] } }),
  column("gone", 0, { result: null, problem: `no answer ${HOSTILE}` }),
];
const matrix: Matrix = {
  task: "mail",
  split: "test",
  seed: 1,
  columns,
  pairs: pairsOf(columns, 1),
  scenarios: questions.map((one, i) => (i === 0 ? { ...one, question: HOSTILE } : one)),
};

beforeAll(() => writeEvaluation(matrix, file));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe(`the page of an evaluation${lack}`, () => {
  it.skipIf(lack)("has the players, their differences, and the scenarios where they differ", async () => {
    const { page, clean } = await openPage(pathToFileURL(file).href);
    const text = await page.locator("main").innerText();
    const [base, best] = columns.map(({ result }) => result?.figures.successes as number) as [number, number];
    expect(text).toContain(`${Number(((100 * base) / 300).toFixed(1)).toFixed(1)} %`);
    expect(text).toContain("best (step 30) − base");
    const difference = Math.round((1000 * (best - base)) / 300) / 10;
    expect(text).toContain(`+${difference.toFixed(1)}`);
    expect(text).toMatch(/gone\s+model\s+broke down: no answer/);
    expect(text).toMatch(/unjudged model\s+–\s+n=0\s+–\s+–\s+–\s+–\s+–\s+1 s/);
    expect(await page.locator(".outcomes tbody tr").count()).toBe(200);
    await page.getByRole("button", { name: "where players differ" }).click();
    const outcomes = columns.flatMap(({ result }) => (result?.figures.n ? [result.outcomes] : []));
    const differing = questions.filter((_, i) => new Set(outcomes.map((of) => of[i]?.success)).size > 1).length;
    expect(await page.locator(".count").innerText()).toBe(`${differing} of 300`);
    await page.getByLabel("Question, kind or id").fill("mail 299?");
    expect(await page.locator(".outcomes tbody tr").count()).toBeLessThanOrEqual(1);
    clean("file://");
  });

  it.skipIf(lack)("shows what strangers wrote as text, in both themes and on a phone", async () => {
    for (const options of [{ dark: true }, { width: 390 }]) {
      const { page, clean } = await openPage(pathToFileURL(file).href, options);
      expect(await page.locator(".outcomes tbody tr").first().innerText()).toContain(
        "<script>window.hostile=1</script>",
      );
      expect(await page.evaluate("window.hostile")).toBeUndefined();
      expect(await page.evaluate("document.documentElement.scrollWidth <= innerWidth")).toBe(true);
      clean("file://");
    }
  });
});
