/** The live page's server, and what is asked of it. */
import { mkdtempSync, rmSync, truncateSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { openRuns } from "../../src/insight/view/runs.js";
import { serveRuns } from "../../src/insight/view/server.js";
import { makeRun } from "./support/run.js";

async function served(...names: string[]) {
  const home = mkdtempSync(join(tmpdir(), "hone-view-"));
  const folders = names.map((name) => makeRun(home, name, { steps: 1 }));
  const runs = openRuns({ home, project: undefined }, names);
  const server = await serveRuns(runs, 0);
  const get = async (path: string) => {
    const response = await fetch(server.url + path);
    const text = await response.text();
    return { status: response.status, text, json: () => JSON.parse(text) as unknown };
  };
  return {
    folders,
    get,
    async close() {
      await server.close();
      for (const run of runs) run.close();
    },
  };
}

it("a run that is damaged while it is watched is told, and the others are followed", async () => {
  const { folders, get, close } = await served("whole", "cut");
  const before = (await get("api/revisions")).json() as string[];
  truncateSync(join(folders[1] as string, "run.sqlite"), 20_000);
  const after = (await get("api/revisions")).json() as string[];
  expect(after[0]).toBe(before[0]);
  expect(after[1]).toMatch(/run\.sqlite is damaged or half written/);
  const problems = ((await get("api/runs")).json() as { problem: string | null }[]).map(({ problem }) => problem);
  expect(problems).toEqual([null, expect.stringContaining("damaged")]);
  await close();
});

it("a run that is removed and begun anew while it is watched is followed", async () => {
  const { folders, get, close } = await served("run");
  const before = (await get("api/revisions")).json();
  const folder = folders[0] as string;
  rmSync(folder, { recursive: true });
  expect((await get("api/revisions")).json()).toEqual(before);
  makeRun(join(folder, "../../.."), "run", { steps: 2 });
  expect((await get("api/revisions")).json()).not.toEqual(before);
  const [view] = (await get("api/runs")).json() as { steps: { step: number }[]; checkpoints: object[] }[];
  expect(view?.steps.map(({ step }) => step)).toEqual([0, 1, 2]);
  const { rows } = (await get("api/rows?run=0")).json() as { rows: { step: number }[] };
  expect(Math.max(...rows.map(({ step }) => step))).toBe(2);
  await close();
});

it("what is not there is not found, however it is asked for", async () => {
  const { get, close } = await served("run");
  const rollout = "api/rollout?run=0";
  for (const path of ["api/rows?run=-1", "api/rows?run=length", `${rollout}&id=1e308`, rollout, "api/%00", "/"])
    expect(await get(path)).toMatchObject({ status: 404, text: "there is nothing at this address" });
  await close();
});
