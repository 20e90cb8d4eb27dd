/** A run of 200 steps × 64 rollouts, some 100 MB when it is unpacked. */
import { mkdtempSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { modelFile } from "../../src/engine/models.js";
import { writeReport } from "../../src/insight/view/report-file.js";
import { openRuns } from "../../src/insight/view/runs.js";
import { serveRuns } from "../../src/insight/view/server.js";
import { lack, openPage } from "./support/browser.js";
import { makeRun } from "./support/run.js";

/** What there is to read at first. */
async function ready(url: string, selector: string) {
  const begun = performance.now();
  const opened = await openPage(url);
  await opened.page.locator(selector).first().waitFor();
  return { ...opened, milliseconds: performance.now() - begun };
}

const MEASURED = 5;

/** Milliseconds, the median of several windows. */
async function opened(url: string, from: string): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < MEASURED; i++) {
    const { page, clean, milliseconds } = await ready(url, ".chart canvas");
    clean(from);
    times.push(milliseconds);
    await page.context().close();
  }
  return times.sort((a, b) => a - b)[Math.floor(MEASURED / 2)] as number;
}

it.skipIf(lack)(
  `a large run: the report stays below 30 MB, and of 12,800 rollouts only those in sight are laid out${lack}`,
  async () => {
    const home = mkdtempSync(join(tmpdir(), "hone-large-"));
    const folder = makeRun(home, "large", {
      steps: 200,
      groups: 8,
      group: 8,
      words: 300,
      tokens: 600,
      model: modelFile("tiny"),
    });
    const runs = openRuns({ home, project: undefined }, ["large"]);
    const file = join(home, "large.html");
    const begun = performance.now();
    const summary = await writeReport(runs, file, 2000);
    const seconds = (performance.now() - begun) / 1000;
    expect(summary).toMatchObject({ rollouts: 200 * 64 + 12 });
    expect(summary.embedded).toBeGreaterThanOrEqual(2000);
    expect(summary.bytes).toBeLessThanOrEqual(30e6);
    const all = await writeReport(runs, join(home, "all.html"), 20_000);
    expect(all.bytes).toBeLessThanOrEqual(30e6);

    // The browser's own start is no part of the figures.
    await openPage("about:blank");
    const fromFile = await opened(`${pathToFileURL(file).href}#/overview`, "file://");
    const list = await ready(`${pathToFileURL(file).href}#/rollouts`, ".line:not(.head)");
    expect(await list.page.locator(".count").innerText()).toContain("12,812 of 12,812");
    expect(await list.page.locator(".line:not(.head)").count()).toBeLessThan(80);
    await list.page.locator(".lines").focus();
    await list.page.keyboard.press("End");
    await list.page.locator(".line:not(.head)", { hasText: "200 ◦" }).first().waitFor();
    expect(await list.page.locator(".line:not(.head)").count()).toBeLessThan(80);
    list.clean("file://");

    const server = await serveRuns(runs, 0);
    const live = await opened(`${server.url}#/overview`, server.url);
    await server.close();
    for (const run of runs) run.close();
    const megabytes = (bytes: number) => (bytes / 1e6).toFixed(1);
    console.log(
      `run.sqlite ${megabytes(statSync(join(folder, "run.sqlite")).size)} MB; report ${megabytes(summary.bytes)} MB of ${summary.embedded} rollouts in ${seconds.toFixed(1)} s, ${megabytes(all.bytes)} MB of ${all.embedded}; ` +
        `from a new window to the first charts, median of ${MEASURED}: file ${fromFile.toFixed(0)} ms, live ${live.toFixed(0)} ms`,
    );
  },
  600_000,
);
