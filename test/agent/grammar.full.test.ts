/** Turns of agents that are sampled under a grammar, and trained so (--off-form prevent). */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { mismatchLimit } from "../../src/guards/mismatch.js";
import { ensureLearnerPython } from "../support/python.js";
import { playTask, support } from "./support/playing.js";

const folder = mkdtempSync(join(tmpdir(), "hone-agent-grammar-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const task = support("verdict-ai-sdk.ts");
const scenarios = ["hammer", "Peru"].map((question, index) => ({ id: `v${index}`, split: "train" as const, question }));
const limits = { maxTokens: 80 };

test("every answer has the form that the agent asks for, which the model by itself never writes", async () => {
  const free = await playTask(task, scenarios, { limits });
  expect(free.groups.flat().map(({ end }) => end)).toEqual(["model_mistake", "model_mistake"]);
  const { groups, failures } = await playTask(task, scenarios, {
    groupSize: 4,
    limits: { ...limits, offForm: "prevent" },
  });
  expect(failures).toEqual([]);
  for (const { end, agent, messages, tokens } of groups.flat()) {
    expect([end, agent?.off_form]).toEqual(["answered", undefined]);
    const verdict = JSON.parse(messages.at(-1)?.content ?? "") as object;
    expect(verdict).toMatchObject({
      kind: expect.stringMatching(/^(animal|tool|country)$/),
      certain: expect.any(Boolean),
    });
    // Where white space or the end may come, several tokens can; within the names of keys, few.
    const { at = [], sets = [] } = tokens?.allowed ?? {};
    expect(at).toHaveLength(tokens?.sampled.filter((flag) => flag === 1).length as number);
    expect(sets.length).toBeGreaterThan(3);
  }
});

test("engine and learner agree on the restricted distribution, and the policy learns within the form", async () => {
  const python = await ensureLearnerPython();
  const cli = join(packageRoot, "dist/src/cli.js");
  const size = [
    "--steps",
    "3",
    "--groups-per-step",
    "4",
    "--group-size",
    "8",
    "--max-tokens",
    "80",
    "--validate-n",
    "1",
  ];
  const how = ["--off-form", "prevent", "--learning-rate", "2e-3", "--warmup", "0", "--threads", "1", "--gpu", "off"];
  const args = ["train", "--task", task, "--model", "tiny", "--python", python, ...size, ...how, "--seed", "1"];
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, encoding: "utf8" });
  expect(status, stdout + stderr).toBe(0);
  const store = RunStore.read(join(folder, ".hone/verdict/models/tiny/run.sqlite"));
  const steps = store.steps().slice(1);
  expect(steps).toHaveLength(3);
  const successes = steps.map(({ metrics }) => metrics?.success as number);
  for (const { step, metrics } of steps) {
    expect(metrics?.agent).not.toHaveProperty("off_form");
    expect(metrics?.mismatch?.mean).toBeLessThan(mismatchLimit("F16"));
    expect(metrics?.draws?.tokens).toBeGreaterThan(0);
    for (const { tokens } of store.rollouts("train", step)) expect(tokens?.allowed?.at.length).toBeGreaterThan(10);
  }
  expect(successes.at(-1)).toBeGreaterThan(successes[0] as number);
  store.close();
});

test("is refused where vLLM plays, which is given no grammar", () => {
  const cli = join(packageRoot, "dist/src/cli.js");
  const args = ["rollout", "--task", task, "--model", "tiny", "--engine", "vllm", "--off-form", "prevent"];
  const { status, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, encoding: "utf8" });
  expect([status, stderr.trim()]).toEqual([
    2,
    "hone: --off-form prevent is for --engine llama.cpp; leave it out with vllm",
  ]);
});
