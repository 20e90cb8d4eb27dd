/** The email task trains with a judge that hone runs: no server before, none after, nothing from a network. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

let folder: string;
beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-own-judge-"));
});
afterAll(() => rmSync(folder, { recursive: true }));

function hone(...args: string[]) {
  const env = { ...process.env, HF_HUB_OFFLINE: "1", HONE_HOME: join(folder, ".hone"), HONE_GPU: "off" };
  const all = [join(packageRoot, "dist/src/cli.js"), ...args];
  return spawnSync(process.execPath, all, { cwd: folder, env, encoding: "utf8" });
}

it("judges answers in training and evaluation, sleeps during the update, and its questions are counted", () => {
  expect(hone("build-db").status).toBe(0);
  const judge = ["--judge-model", "tiny", "--judge-max-tokens", "200"];
  const small = ["--groups-per-step", "3", "--group-size", "4", "--validate-n", "2", "--validate-every", "0"];
  const trained = hone("train", "--model", "tiny", "--steps", "1", ...small, "--reward", "shaped", ...judge, "--json");
  expect(trained.status, trained.stderr).toBe(0);
  expect(trained.stdout + trained.stderr).toMatch(/judge: tiny \(F16\) in this process/);
  const [line] = hone("metrics", "tiny", "--json").stdout.trim().split("\n").slice(-1);
  const { steps } = JSON.parse(line as string);
  expect(steps[0].judge.requests).toBeGreaterThan(0);
  expect(steps[0].judge.cost).toBe(0);
  // The optimizer made a step while the judge slept.
  expect(steps[0].grad_norm).toBeGreaterThan(0);

  const evaluated = hone("eval", "--checkpoint", "latest", "--n", "3", ...judge, "--accuracy", "judge", "--json");
  expect(evaluated.status, evaluated.stderr).toBe(0);
  const columns = JSON.parse(evaluated.stdout.trim().split("\n").at(-1) as string).columns;
  expect(columns[0].problem).toBeNull();
}, 900_000);
