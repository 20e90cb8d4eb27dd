/**
 * `yarn gpu-check --first` as a whole on a null card: each of its sections runs to its end, or says in a line of its own what
 * numbers that nobody computed do not suffice for, and the file and the page are there all the same.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import type { First } from "../../bench/gpu-check/first-page.js";
import { Machine, nameOf, root } from "./support.js";

let machine: Machine;
afterEach(() => machine.remove());

it("all sections of the first hour run, and leave one file and one page", async () => {
  // Whatever is read from the card is 1.
  machine = new Machine(["4090"], { env: { NULLCUDA_NO_DATA: "1" } });
  const program = join(root, "dist/bench/gpu-check/main.js");
  const { code, stderr } = await machine.run(process.execPath, [program, "--first", "--small", "--out", "out"]);
  const read = (name: string) => readFileSync(join(machine.folder, "out", name), "utf8");
  const { sections, ...about } = JSON.parse(read("first.json")) as First;
  expect(about).toMatchObject({ device: "cuda", small: true, standIn: true, hardware: { gpu: nameOf("4090") } });
  const { doctor, parity, steps, speed, "update-peft": peft, "update-unsloth": unsloth } = sections;

  // The new adapter does not change the engine's numbers as it does the learner's.
  expect(doctor).toMatchObject({ state: "failed", problem: "doctor found to be mended: adapter" });
  const states = Object.fromEntries(doctor?.checks?.map(({ name, state }) => [name, state]) ?? []);
  expect(states).toMatchObject({ driver: "ok", torch: "ok", compiler: "ok", rollouts: "ok" });

  const whole = [sections.prepare, parity, steps, speed, peft];
  expect(whole.map((one) => [one?.state, one?.problem])).toEqual(whole.map(() => ["done", undefined]));
  expect(parity?.rows?.map(({ adapter, tokens }) => [adapter, tokens])).toEqual([
    ["without", 39],
    ["with", 39],
  ]);
  expect(steps?.steps?.map(({ step }) => step)).toEqual([1, 2, 3]);
  // What was allocated is real: the model, its copy in the learner, and a context of the driver's for each process.
  expect(steps?.card?.planned).toBeGreaterThan(0);
  expect(steps?.card?.measured).toBeGreaterThan(2 * 400 * 2 ** 20);
  expect(steps?.learner?.measured).toBeGreaterThan(0);
  expect(speed?.rows?.map(({ sequences, llama_batched_bench: theirs }) => [sequences, Number(theirs) > 0])).toEqual([
    [1, true],
    [2, true],
  ]);
  expect(peft?.update).toMatchObject({ device: nameOf("4090"), way: "fused layers" });
  if (unsloth?.state === "done") expect(unsloth.update?.device).toBe(nameOf("4090"));
  else expect(unsloth?.problem).toContain("Unsloth is not installed");
  const failed = unsloth?.state === "done" ? 1 : 2;
  expect([code, stderr]).toEqual([1, expect.stringContaining(`gpu-check: ${failed} of 7 sections did not end well`)]);
  expect(read("first.html")).toContain("stand-in that does not compute");
});
