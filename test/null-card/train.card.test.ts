/** A training on a null card, by the command line: rollouts, updates compiled for the card, checkpoints, sleep and wake. */
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { Machine, nameOf, root } from "./support.js";

let machine: Machine;
afterEach(() => machine.remove());

it("two steps are played, learnt and committed, and the engine gives the card back", async () => {
  // Whatever is read from the card is 1: engine and learner agree to some nats, as they must for a step to be committed.
  machine = new Machine(["4090"], { env: { NULLCUDA_NO_DATA: "1" } });
  const task = [
    "--task",
    join(root, "examples/arithmetic.ts"),
    "--model",
    "tiny",
    "--learner",
    "peft",
    "--gpu",
    "cuda",
  ];
  const size = ["--steps", "2", "--groups-per-step", "2", "--group-size", "4"];
  // No answer is right, so rewards are drawn.
  const control = ["--control", "random-reward", "--max-mismatch", "100"];
  const { code, stdout, stderr } = await machine.hone("train", ...task, ...size, ...control, "--json");
  expect(code, stderr).toBe(0);
  expect(JSON.parse(stdout.trim().split("\n").at(-1) ?? "")).toMatchObject({ steps: 2 });
  expect(stderr).toContain(`engine: CUDA, ${nameOf("4090")}`);
  expect(stderr).toContain(`learner: ${nameOf("4090")}, f16`);
  const used = machine.counted();
  const engine = used.find(({ cmd }) => cmd.includes("cli.js"));
  expect(engine?.live).toBe(engine?.context);
  expect(Number(engine?.["graph launches"])).toBeGreaterThan(0);
  const learner = used.find((one) => Number(one["modules loaded"]) > 0);
  expect(Number(learner?.["launch direct"])).toBeGreaterThan(1000);
  const names = used.flatMap((one) => Object.keys(one));
  expect(names.filter((what) => /^launch refused|^OUT OF MEMORY/.test(what))).toEqual([]);
});
