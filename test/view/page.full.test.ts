/** The page in a browser: the report as a file, and the live page. */
import { mkdtempSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import type { AxeResults } from "axe-core";
import Database from "better-sqlite3";
import { beforeAll, describe, expect, it } from "vitest";
import { RunStore } from "../../src/core/run/store.js";
import { modelFile } from "../../src/engine/models.js";
import { writeReport } from "../../src/insight/view/report-file.js";
import { openRuns, type SeenRun } from "../../src/insight/view/runs.js";
import { serveRuns } from "../../src/insight/view/server.js";
import { RunReader } from "../../src/machine/runs/reader.js";
import { lack, openPage } from "./support/browser.js";
import { addStep, makeRun } from "./support/run.js";

const HOSTILE = [
  "<img src=x onerror='window.hostile=1'><script>window.hostile=2</script>",
  "</script><script>window.hostile=3</script><!--<script>",
  "\u001b[31mred\u001b[0m \u202egnp.exe",
  "<a href='javascript:window.hostile=4'>x</a>",
].join("\n");

const home = mkdtempSync(join(tmpdir(), "hone-page-"));
const asked = { steps: 9, lost: 7, broken: 8, says: HOSTILE, model: modelFile("tiny") };
let folder: string;
let file: string;
const seen = (...names: string[]): SeenRun[] => openRuns({ home, project: undefined }, names);

beforeAll(async () => {
  folder = makeRun(home, "first", asked);
  makeRun(home, "second", { steps: 4, options: { learningRate: 5e-4 } });
  const runs = seen("first", "second");
  file = join(home, "report.html");
  await writeReport(runs, file, 2000);
  for (const run of runs) run.close();
});

const rollouts = (filter: object) => {
  const reader = RunReader.open(folder);
  const all = [...reader.rollouts(filter)];
  reader.close();
  return all;
};

describe(`the report, opened from a file${lack}`, () => {
  const url = (hash: string) => `${pathToFileURL(file).href}#/${hash}`;

  it.skipIf(lack)(
    "says first why step 7 taught nothing, with a way to the step and from there to a group",
    async () => {
      const { page, clean } = await openPage(url(""));
      const problems = page.getByRole("region", { name: "What stands out" });
      expect(await problems.innerText()).toMatch(/step 7 Nothing was learnt: no group got a reward/);
      await problems.getByRole("link", { name: "step 7" }).click();
      const step = await page.locator("main").innerText();
      expect(step).toContain("3 of 3 groups got no reward: the judge did not answer in time (timeout)");
      expect(step.match(/no reward: the judge did not answer in time/g)?.length).toBeGreaterThanOrEqual(3);
      await page.locator(".groups tbody a").first().click();
      await page.getByRole("article").first().waitFor();
      expect(await page.locator("main").innerText()).toContain("This group taught nothing: no reward");
      clean("file://");
    },
  );

  it.skipIf(lack)("draws the curves of both runs, says what is smoothed, and follows the cursor", async () => {
    const { page, clean } = await openPage(url("overview"));
    const success = page.getByRole("region", { name: "Success" });
    await success.locator("canvas").waitFor();
    expect(await success.innerText()).toMatch(/first train[\s\S]*second train/);
    await page.getByLabel("smoothing").fill("0.6");
    expect(await page.locator("output").innerText()).toContain("smoothed: exponential mean, weight 0.60");
    await success.locator(".plot").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await page.getByRole("region", { name: "Entropy" }).getByText("step 1").waitFor();
    await page.getByRole("checkbox", { name: "second" }).uncheck();
    expect(await success.innerText()).not.toContain("second");
    clean("file://");
  });

  it.skipIf(lack)("filters the rollouts", async () => {
    const { page, clean } = await openPage(url("rollouts"));
    const counted = () => page.locator(".count").innerText();
    const all = rollouts({});
    await expect.poll(counted).toContain(`${all.length} of ${all.length} rollouts`);
    await page.getByLabel("step", { exact: true }).fill("3-5");
    await page.getByLabel("success").selectOption("no");
    await page.getByLabel("failed calls").selectOption("malformed");
    const wanted = all.filter(
      ({ step, success, trajectory }) =>
        step >= 3 && step <= 5 && !success && trajectory.calls.some(({ outcome }) => outcome === "malformed"),
    );
    expect(wanted.length).toBeGreaterThan(0);
    await expect.poll(counted).toContain(`${wanted.length} of ${all.length} rollouts`);
    const ids = await page.locator(".line:not(.head) .who b").allInnerTexts();
    expect(ids).toEqual(wanted.map(({ scenario, member }) => `${scenario}/${member}`));
    // The address holds the filters: a view can be kept.
    expect(page.url()).toContain("success=no");
    await page.getByRole("button", { name: "clear" }).click();
    await page.getByLabel("reward from").fill("0.9");
    await expect.poll(counted).toContain(`${all.filter(({ reward }) => reward >= 0.9).length} of`);
    clean("file://");
  });

  it.skipIf(lack)("shows a group's own rollouts, with the advantages and the judge's words of the update", async () => {
    const [one] = rollouts({ phase: "train", from: 5, to: 5 });
    const group = rollouts({ phase: "train", from: 5, to: 5 }).filter(({ scenario }) => scenario === one?.scenario);
    const { page, clean } = await openPage(
      url(
        `group?run=0&phase=train&step=5&scenario=${one?.scenario}&show=${group.map(({ member }) => member).join(",")}`,
      ),
    );
    await page.getByRole("article").first().waitFor();
    const shown = await page.locator(".members .advantage").allInnerTexts();
    expect(shown.map((text) => Number(text.replace("−", "-")))).toEqual(
      group.map(({ advantage }) => Number((advantage as number).toPrecision(3))),
    );
    expect(await page.locator(".members .reward").allInnerTexts()).toEqual(group.map(({ reward }) => String(reward)));
    const columns = await page.getByRole("article").all();
    expect(columns).toHaveLength(group.length);
    for (const [i, { explanation }] of group.entries()) {
      await columns[i]?.locator(".judge").waitFor();
      expect(await columns[i]?.locator(".judge").innerText()).toContain(explanation);
    }
    clean("file://");
  });

  it.skipIf(lack)("shows what strangers wrote as text, and runs nothing of it", async () => {
    const [one] = rollouts({ phase: "train", from: 1, to: 1 }).filter(
      ({ trajectory: { calls }, member }) => member === 0 && calls[0]?.outcome === "ok",
    );
    const { page, clean } = await openPage(url(`group?run=0&phase=train&step=1&scenario=${one?.scenario}&show=0`));
    await page.getByRole("article").locator(".message.tool").waitFor();
    const text = await page.getByRole("article").innerText();
    expect(text).toContain("<img src=x onerror='window.hostile=1'><script>window.hostile=2</script>");
    expect(text).toContain("</script><script>window.hostile=3</script><!--<script>");
    expect(text).toContain("␛[31mred␛[0m ⟨U+202E⟩gnp.exe");
    expect(await page.evaluate("window.hostile")).toBeUndefined();
    expect(await page.locator("article img, article a, article script").count()).toBe(0);
    clean("file://");
  });

  it.skipIf(lack)("colours tokens, whose text is the vocabulary's", async () => {
    const [one] = rollouts({ phase: "train", from: 2, to: 2 });
    const { page, clean } = await openPage(url(`group?run=0&phase=train&step=2&scenario=${one?.scenario}&show=0`));
    await page.getByRole("button", { name: "tokens" }).click();
    const tokens = page.locator(".tokens pre span");
    expect(await tokens.count()).toBe(8);
    expect(await page.locator(".tokens pre .given").count()).toBe(4);
    expect(await page.locator(".tokens pre").innerText()).not.toContain("⟨");
    const logprob = one?.trajectory.tokens?.logprobs[4] as number;
    expect(await tokens.nth(4).getAttribute("title")).toContain(`${(100 * Math.exp(logprob)).toFixed(1)} %`);
    await page.getByLabel("colour by").selectOption("advantage");
    const sign = (one?.advantage as number) > 0 ? "plus" : "minus";
    expect(await page.locator(`.tokens pre .${sign}`).count()).toBe(4);
    await page.getByLabel("colour by").selectOption("sampled");
    expect(await page.locator(".tokens pre .sampled").count()).toBe(4);
    clean("file://");
  });

  it.skipIf(lack)("says of a group of a step that was skipped that nothing of it was learnt", async () => {
    const groups = rollouts({ phase: "train", from: 8, to: 8 });
    const one = groups.find(({ advantage }) => advantage !== 0);
    const { page, clean } = await openPage(url(`group?run=0&phase=train&step=8&scenario=${one?.scenario}&show=0`));
    await page.getByRole("button", { name: "tokens" }).click();
    expect(await page.locator(".banner").innerText()).toBe(
      "This group taught nothing: step skipped, the loss was not a finite number.",
    );
    await page.getByLabel("colour by").selectOption("advantage");
    expect(await page.locator(".tokens pre .untaught").count()).toBe(4);
    clean("file://");
  });

  it.skipIf(lack)("shows what turns the direction of names, and of what is beside them, in every list", async () => {
    makeRun(home, "named", { steps: 1, named: "\u202e" });
    const runs = seen("named");
    const other = join(home, "named.html");
    await writeReport(runs, other, 10);
    for (const run of runs) run.close();
    for (const view of ["steps", "steps?step=1", "rollouts"]) {
      const { page, clean } = await openPage(`${pathToFileURL(other).href}#/${view}`);
      await page.getByText("⟨U+202E⟩t").first().waitFor();
      expect(await page.locator("main").innerText(), view).not.toContain("\u202e");
      clean("file://");
    }
  });

  it.skipIf(lack)("puts one scenario before and after training side by side", async () => {
    const { page, clean } = await openPage(url("compare?run=0&scenario=test-2"));
    await page.getByRole("article").nth(1).waitFor();
    const titles = await page.locator("article > header b:first-child").allInnerTexts();
    expect(titles).toEqual(["held out, before training, rollout 0", "held out, after step 9, rollout 0"]);
    clean("file://");
  });

  it.skipIf(lack)("says what differs between the runs", async () => {
    const { page, clean } = await openPage(url("settings"));
    const options = await page.locator(".settings").first().innerText();
    expect(options).toMatch(/--learning-rate\s+0\.0001\s+0\.0005/);
    expect(options).not.toContain("--loss");
    clean("file://");
  });

  it.skipIf(lack).each([
    { width: 390, dark: true },
    { width: 1280, dark: false },
  ])("can be used by everybody, and fits: nothing but tables and columns of their own is wider %j", async (options) => {
    const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
    const { page, clean } = await openPage(url(""), options);
    for (const view of ["overview", "steps", "steps?step=7", "rollouts", "settings", "compare?scenario=test-2"]) {
      await page.goto("about:blank");
      await page.goto(url(view));
      await page.locator("main > *").first().waitFor();
      expect(await page.evaluate("document.documentElement.scrollWidth"), view).toBeLessThanOrEqual(options.width);
      expect(await page.evaluate("document.documentElement.dataset.theme")).toBe(options.dark ? "dark" : "light");
      await page.evaluate(axe);
      const { violations } = await page.evaluate<AxeResults>("axe.run()");
      const serious = violations.filter(({ impact }) => impact === "serious" || impact === "critical");
      expect(serious.map(({ id, nodes }) => [view, id, nodes.map(({ target }) => target)])).toEqual([]);
    }
    clean("file://");
  });

  it.skipIf(lack)(
    "is read by the keyboard: views, what is folded, a chart's steps, a rollout of the list",
    async () => {
      const { page, clean } = await openPage(url("overview"));
      const time = page.locator(".diagnostics summary", { hasText: "time" });
      await time.focus();
      await page.keyboard.press("Enter");
      await page.getByRole("region", { name: "Seconds a step" }).waitFor();
      await page.keyboard.press("3");
      await page.locator(".lines").focus();
      await page.keyboard.press("ArrowDown");
      await page.keyboard.press("Enter");
      await page.getByRole("article").first().waitFor();
      clean("file://");
    },
  );
});

describe(`the live page${lack}`, () => {
  it.skipIf(lack)("says which run's rollouts cannot be read, and shows the figures of its steps", async () => {
    const damaged = new Database(join(makeRun(home, "damaged", { steps: 3 }), "run.sqlite"));
    damaged.prepare("UPDATE rollouts SET trajectory = x'00' WHERE step = 2").run();
    damaged.close();
    const runs = seen("damaged", "second");
    const server = await serveRuns(runs, 0);
    try {
      const { page } = await openPage(`${server.url}#/steps`);
      const banner = page.locator(".banner");
      await banner.waitFor();
      expect(await banner.innerText()).toMatch(
        /^Not all rollouts of damaged could be read: .*is damaged or half written/,
      );
      expect(await page.locator(".steps tbody tr").count()).toBe(3);
    } finally {
      await server.close();
      for (const run of runs) run.close();
    }
  });

  it.skipIf(lack)("follows a run, has every rollout, and asks its own server alone", async () => {
    const growing = makeRun(home, "growing", { steps: 2, lost: 3 });
    const runs = seen("growing");
    const server = await serveRuns(runs, 0);
    try {
      const { page, clean, requests } = await openPage(`${server.url}#/steps`);
      await page.locator(".steps tbody tr").nth(1).waitFor();
      const store = RunStore.open(join(growing, "run.sqlite"));
      addStep(store, 3, { steps: 4, lost: 3 });
      await page.locator(".steps tbody tr").nth(2).waitFor();
      expect(await page.locator(".steps tbody tr").nth(2).innerText()).toContain("no group got a reward");
      addStep(store, 4, { steps: 4 });
      store.close();
      await page.locator(".steps tbody tr").nth(3).waitFor();
      await page.getByRole("link", { name: "4", exact: true }).click();
      await page.locator(".groups tbody a").first().click();
      await page.locator("article .message").first().waitFor();
      expect((await page.locator(".members .advantage").allInnerTexts()).join("")).toMatch(/[+−]0\.\d/);
      expect(requests.some((url) => url.includes("/api/rollout?run=0&id="))).toBe(true);
      clean(server.url);
    } finally {
      await server.close();
      for (const run of runs) run.close();
    }
  });
});
