/**
 * Steps played ahead on the model that comes with hone, by the command line: the run is killed when its first step is settled, and
 * the same command goes on. What it keeps says which policy played, and the learner's numbers are of that one.
 */
import { spawn, spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { MetricsLine, StepRow } from "../../src/core/run/records.js";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { mismatchLimit } from "../../src/guards/mismatch.js";
import { ensureLearnerPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-ahead-"));
const run = join(folder, ".hone", "email", "models", "ahead");
const cli = join(packageRoot, "dist/src/cli.js");
const STEPS = 3;

function hone(...args: string[]): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, encoding: "utf8" });
  expect(status, stderr).toBe(0);
  return stdout;
}

const lines = (): MetricsLine[] => {
  const file = join(run, "metrics.jsonl");
  const text = existsSync(file) ? readFileSync(file, "utf8") : "";
  return text
    .split("\n")
    .slice(0, -1)
    .map((line) => JSON.parse(line) as MetricsLine);
};

/** Kills the command when its run has so many lines of metrics. */
function killedAfter(steps: number, args: readonly string[]): Promise<void> {
  const child = spawn(process.execPath, [cli, ...args], { cwd: folder, stdio: ["ignore", "ignore", "pipe"] });
  let said = "";
  child.stderr.on("data", (text) => {
    said += text;
  });
  const look = setInterval(() => {
    if (lines().length >= steps) child.kill("SIGKILL");
  }, 20);
  return new Promise((resolve, reject) => {
    child.once("exit", (_, signal) => {
      clearInterval(look);
      if (signal === "SIGKILL") resolve();
      else reject(new Error(`it ended before it was killed: ${said}`));
    });
  });
}

describe("yarn train --staleness 1 on the tiny model", () => {
  let steps: StepRow[];
  let players: (string | null)[][];

  beforeAll(async () => {
    const python = await ensureLearnerPython();
    hone("build-db", "--mailboxes", "20");
    const small = ["--groups-per-step", "3", "--group-size", "4", "--max-turns", "6", "--validate-n", "1"];
    // Coins for rewards, since those of untrained rollouts are often equal, and less certain tokens, which an update moves further.
    const coins = ["--control", "random-reward", "--temperature", "1.5"];
    const rates = ["--learning-rate", "3e-3", "--warmup", "0", "--staleness", "1", "--threads", "1", ...coins];
    const named = ["--model", "tiny", "--run", "ahead", "--steps", String(STEPS), "--python", python];
    const command = ["train", ...named, ...small, ...rates];
    await killedAfter(1, command);
    hone(...command);
    const store = RunStore.read(join(run, "run.sqlite"));
    steps = store.steps();
    players = steps.map(({ step }) => store.rollouts("train", step).map(({ player }) => player.adapter));
    store.close();
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("takes each step once, also after the kill, played by the policy of two steps before", () => {
    expect(lines().map(({ step, version, staleness }) => ({ step, version, staleness }))).toEqual([
      { step: 1, version: 0, staleness: 0 },
      { step: 2, version: 0, staleness: 1 },
      { step: 3, version: 1, staleness: 1 },
    ]);
    for (const [step, version] of [
      [1, 0],
      [2, 0],
      [3, 1],
    ] as const) {
      expect(players[step]).toEqual(Array(12).fill(steps[version]?.adapter));
    }
    expect(steps.map(({ checkpoint }) => checkpoint)).toEqual([null, 1, 2, 3]);
  });

  it("compares engine and learner with the policy that played, and weighs tokens by the ratio to it", () => {
    const [first, second, third] = lines() as [MetricsLine, MetricsLine, MetricsLine];
    const limit = mismatchLimit("F16");
    for (const { mismatch } of [first, second, third]) expect(mismatch?.mean).toBeLessThan(limit);
    expect(first.drift).toBeNull();
    for (const { drift, mismatch, importance_ess: ess } of [second, third]) {
      // An update of this size is far beyond rounding: the weights correct for it.
      expect(drift?.mean).toBeGreaterThan(10 * (mismatch?.mean ?? 1));
      expect(ess).toBeLessThan(first.importance_ess as number);
    }
    // Of the third it can be told from the policy before it.
    expect(third.played?.slope).toBeGreaterThan(0.5);
  });

  it("can be computed again from what it keeps", () => {
    expect(hone("replay", "--run", "ahead", "--step", String(STEPS))).not.toContain("differs");
  });
});
