/** Training on tasks that their own code plays: two steps of the tiny model in-process, and over HTTP. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { mismatchLimit } from "../../src/guards/mismatch.js";
import { ensureLearnerPython } from "../support/python.js";
import { support } from "./support/playing.js";

const folder = mkdtempSync(join(tmpdir(), "hone-agent-training-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
let python: string;
beforeAll(async () => {
  python = await ensureLearnerPython();
}, 300_000);

const STEPS = 2;

function trained(task: string, ...more: string[]): RunStore {
  const cli = join(packageRoot, "dist/src/cli.js");
  const small = [
    "--groups-per-step",
    "2",
    "--group-size",
    "3",
    "--max-turns",
    "6",
    "--max-tokens",
    "40",
    "--validate-n",
    "1",
  ];
  const options = ["--steps", String(STEPS), ...small, "--threads", "1", "--learning-rate", "1e-2", "--warmup", "0"];
  const args = ["train", "--task", support(`${task}.ts`), "--model", "tiny", ...options, "--python", python, ...more];
  const { status, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, encoding: "utf8" });
  expect(status, stderr).toBe(0);
  return RunStore.read(join(folder, ".hone", task.replace("-ai-sdk", ""), "models/tiny/run.sqlite"));
}

test("an AI SDK agent whose rollouts are trees learns from every sequence, and engine and learner agree on them", () => {
  // gspo's ratio is a sequence's, and its mean is over rollouts.
  const store = trained("tree-ai-sdk", "--loss", "gspo");
  const steps = store.steps().slice(1);
  expect(steps).toHaveLength(STEPS);
  for (const { step, metrics } of steps) {
    const rollouts = store.rollouts("train", step);
    for (const { branches = [], agent, tokens, completionTokens } of rollouts) {
      expect(agent).toMatchObject({ completions: 4, sequences: 3 });
      const sampled = [tokens, ...branches.map((branch) => branch.tokens)].flatMap((one) => one?.sampled ?? []);
      expect(sampled.filter((flag) => flag === 1)).toHaveLength(completionTokens);
    }
    expect(metrics?.skipped).toBeNull();
    expect(metrics?.agent).toEqual({ completions: 24, sequences: 18 });
    if (metrics?.groups_trainable === 2) {
      const played = rollouts.reduce((sum, { completionTokens }) => sum + completionTokens, 0);
      expect(metrics.sampled_tokens).toBe(played);
    }
    expect(metrics?.mismatch?.mean).toBeLessThan(mismatchLimit("F16"));
  }
  store.close();
});

test("a Python program that speaks OpenAI's API learns as well", () => {
  // Untrained, most rollouts have the same turns, and so the same reward.
  const store = trained("mail-python", "--control", "random-reward");
  const steps = store.steps().slice(1);
  expect(steps).toHaveLength(STEPS);
  for (const { metrics } of steps) {
    expect(metrics?.failures).toBe(0);
    expect(metrics?.updates).toBe(1);
    expect(metrics?.mismatch?.mean).toBeLessThan(mismatchLimit("F16"));
  }
  store.close();
});
