/**
 * `yarn gpu-check` as a whole on a null card: each of its sections runs to its end, or says in a line of its own what
 * numbers that nobody computed do not suffice for, and all of it is in one file.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { afterEach, expect, it } from "vitest";
import { NOT_COUNTABLE } from "../../bench/gpu-check/context.js";
import { plan } from "../../bench/gpu-check/plan.js";
import type { Checked } from "../../bench/gpu-check/results.js";
import { Machine, nameOf, root } from "./support.js";

let machine: Machine;
afterEach(() => machine.remove());

it("all sections of the hour run, and leave one file", async () => {
  // Whatever is read from the card is 1.
  machine = new Machine(["4090"], { env: { NULLCUDA_NO_DATA: "1" } });
  const program = join(root, "dist/bench/gpu-check/main.js");
  const args = [program, "--small", "--minutes", "600", "--out", "out"];
  const { code, stdout, stderr } = await machine.run(process.execPath, args);
  const files = readdirSync(join(machine.folder, "out"));
  expect(files).toEqual([expect.stringMatching(/^gpu-check-rehearsal-.*-nvidia-geforce-rtx-4090\.json$/)]);
  const { sections, ...about } = JSON.parse(readFileSync(join(machine.folder, "out", files[0] ?? ""), "utf8"));
  expect(about).toMatchObject({ device: "cuda", small: true, standIn: true, hardware: { gpu: nameOf("4090") } });

  const ends = Object.entries((sections as Checked["sections"]) ?? {}).map(([name, { state, problem }]) => [
    name,
    state,
    problem,
  ]);
  const uncounted = {
    parity: "it computes no log-probabilities",
    ...Object.fromEntries(
      ["update-unsloth", "update-heads"].map((name) => [name, "it computes no losses that could be compared"]),
    ),
    ...Object.fromEntries(
      ["task-hone", "task-trl", "task-unsloth"].map((name) => [
        name,
        "vLLM chooses its kernels by what they compute at its start",
      ]),
    ),
    // The new adapter does not change the engine's numbers as it does the learner's.
    doctor: "doctor found to be mended: adapter",
  };
  const of = (name: string) => (name in uncounted ? [NOT_COUNTABLE, uncounted[name as "parity"]] : ["done", undefined]);
  const noUnsloth = ["failed", expect.stringContaining("Unsloth is not installed")];
  const unsloth = sections["update-unsloth"].state !== "failed";
  expect(ends).toEqual(
    plan.map(({ section: { name } }) => [name, ...(name === "update-unsloth" && !unsloth ? noUnsloth : of(name))]),
  );
  expect([code, stderr.includes("did not end well")], stdout).toEqual(unsloth ? [0, false] : [1, true]);

  const { parity, "speed-8": speed, "step-2x4": step, memory, doctor } = sections;
  expect(
    parity.rows.map(({ adapter, decoder, tokens }: Record<string, unknown>) => [adapter, decoder, tokens]),
  ).toEqual(["without", "with"].flatMap((adapter) => ["llama", "own"].map((decoder) => [adapter, decoder, 39])));
  expect(speed.rows.map(({ traffic, played }: Record<string, unknown>) => [traffic, played])).toEqual(
    ["decode", "agents"].flatMap((traffic) => ["llama", "own"].map((decoder) => [traffic, decoder])),
  );
  for (const { withAdapter, withoutAdapter } of speed.rows) expect([...withAdapter, ...withoutAdapter]).toHaveLength(4);
  expect(Object.values(speed.llamaBatchedBench)).toEqual([expect.any(Number)]);
  expect(step.steps.map((one: { step: number }) => one.step)).toEqual([1, 2, 3]);
  // What was allocated is real: the model, its copy in the learner, and a context of the driver's for each process.
  for (const { card, learner } of memory.rows) {
    expect(card.planned).toBeGreaterThan(0);
    expect(card.measured).toBeGreaterThan(2 * 400 * 2 ** 20);
    expect(learner.measured).toBeGreaterThan(0);
  }
  expect(sections["update-peft"].update).toMatchObject({ device: nameOf("4090"), way: "fused layers" });
  const states = Object.fromEntries(doctor.checks.map(({ name, state }: Record<string, string>) => [name, state]));
  expect(states).toMatchObject({ driver: "ok", torch: "ok", compiler: "ok", rollouts: "ok" });
});
