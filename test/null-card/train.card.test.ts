/**
 * Trainings by the command line: on one null card, where engine and learner take turns, and on two, where they compute at the same
 * time.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, beforeAll, expect, it } from "vitest";
import { Machine, nameOf, type Profile, root } from "./support.js";

let machine: Machine;
afterEach(() => machine.remove());

const task = ["--task", join(root, "examples/arithmetic.ts"), "--model", "tiny", "--learner", "peft", "--gpu", "cuda"];

/** Two steps that were committed. @returns what was said, the steps, and what the cards counted */
async function trained(cards: readonly Profile[], flags: readonly string[]) {
  // Whatever is read from the card is 1: engine and learner agree to some nats, as they must for a step to be committed.
  machine = new Machine(cards, { env: { NULLCUDA_NO_DATA: "1" } });
  const size = ["--steps", "2", "--groups-per-step", "2", "--group-size", "4"];
  // No answer is right, so rewards are drawn.
  const control = ["--control", "random-reward", "--max-mismatch", "100"];
  const { code, stdout, stderr } = await machine.hone("train", ...task, ...size, ...control, ...flags, "--json");
  expect(code, stderr).toBe(0);
  const { folder, steps } = JSON.parse(stdout.trim().split("\n").at(-1) ?? "") as { folder: string; steps: number };
  expect(steps).toBe(2);
  const used = machine.counted();
  const engine = used.find(({ cmd }) => cmd.includes("cli.js"));
  expect(engine?.live).toBe(engine?.context);
  const learner = used.find((one) => Number(one["modules loaded"]) > 0);
  expect(Number(learner?.["launch direct"])).toBeGreaterThan(1000);
  const lines = readFileSync(join(folder, "metrics.jsonl"), "utf8").trim().split("\n");
  machine.remove();
  return {
    stderr,
    steps: lines.map((line) => JSON.parse(line) as object),
    freed: Number(engine?.["free device calls"]),
    graphs: Number(engine?.["graph launches"]),
    refused: used.flatMap((one) => Object.keys(one)).filter((what) => /^launch refused|^OUT OF MEMORY/.test(what)),
  };
}

let turns: Awaited<ReturnType<typeof trained>>;
beforeAll(async () => {
  turns = await trained(["4090"], []);
});

it("on one card two steps are played, learnt and committed, and the engine gives the card back", () => {
  expect(turns.stderr).toContain(`engine: CUDA, ${nameOf("4090")}`);
  expect(turns.stderr).toContain(`learner: ${nameOf("4090")}, f16`);
  expect(turns.steps).toMatchObject([{ step: 1 }, { step: 2 }]);
  expect(turns.graphs).toBeGreaterThan(0);
  expect(turns.refused).toEqual([]);
});

it("on two cards each computes on its own, nothing sleeps, and a step is played ahead", async () => {
  const two = await trained(["4090", "3060"], ["--device", "0", "--learner-device", "1", "--staleness", "1"]);
  expect(two.stderr).toContain(`engine: CUDA, ${nameOf("4090")}`);
  expect(two.stderr).toContain(`learner: ${nameOf("3060")}, f16`);
  // Of sequences and buffers, which an engine that sleeps makes anew at each step.
  expect(two.freed).toBeLessThan(turns.freed);
  expect(two.steps).toMatchObject([
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
  expect(one.stderr.trim()).toMatch(/--staleness 1: .* on one card\.\nGive the learner another.*$/);
});
