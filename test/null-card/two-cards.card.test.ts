/** A training on a machine of two null cards: the engine on one, the learner on the other, at the same time. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { Machine, nameOf, root } from "./support.js";

let machine: Machine;
afterEach(() => machine.remove());

const task = ["--task", join(root, "examples/arithmetic.ts"), "--model", "tiny", "--learner", "peft", "--gpu", "cuda"];

it("each computes on its own card, nothing sleeps, and a step is played ahead", async () => {
  machine = new Machine(["4090", "3060"], { env: { NULLCUDA_NO_DATA: "1" } });
  const size = ["--steps", "2", "--groups-per-step", "2", "--group-size", "4"];
  // No answer is right, so rewards are drawn. Nothing is computed, so the distance of engine and learner is no measure.
  const control = ["--control", "random-reward", "--max-mismatch", "100"];
  const cards = ["--device", "0", "--learner-device", "1", "--staleness", "1"];
  const { code, stdout, stderr } = await machine.hone("train", ...task, ...size, ...control, ...cards, "--json");
  expect(code, stderr).toBe(0);
  const { folder } = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as { folder: string };
  expect(stderr).toContain(`engine: CUDA, ${nameOf("4090")}`);
  expect(stderr).toContain(`learner: ${nameOf("3060")}, f16`);
  const used = machine.counted();
  const engine = used.find(({ cmd }) => cmd.includes("cli.js"));
  expect(engine?.live).toBe(engine?.context);
  const learner = used.find((one) => Number(one["modules loaded"]) > 0);
  expect(Number(learner?.["launch direct"])).toBeGreaterThan(1000);
  // The engine's context is made once: it would be made again after each sleep.
  const log = readFileSync(join(folder, "logs/engine.log"), "utf8");
  expect(log.match(/constructing llama_context/g)).toHaveLength(1);
  const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8").trim().split("\n");
  expect(lines.map((line) => JSON.parse(line) as object)).toMatchObject([
    { step: 1, version: 0, staleness: 0 },
    { step: 2, version: 0, staleness: 1 },
  ]);
});

it("a card that is not there, and steps ahead on one card, are refused in one line", async () => {
  machine = new Machine(["4090", "3060"]);
  const none = await machine.hone("train", ...task, "--learner-device", "2");
  expect(none.code).not.toBe(0);
  expect(none.stderr.trim().split("\n").at(-1)).toMatch(/--learner-device 2 names no NVIDIA GPU, .*there are 0 .*, 1 /);
  const one = await machine.hone("train", ...task, "--learner-device", "0", "--staleness", "1");
  expect(one.code).not.toBe(0);
  expect(one.stderr.trim().split("\n").at(-1)).toMatch(/--staleness 1: .* on one card; give the learner another/);
});
