/**
 * A null card that is full in the middle of an update. Whatever the place, the learner answers "memory" in one line, holds no
 * more of the card than before, and makes the next update when there is room.
 */
import { afterEach, expect, it } from "vitest";
import { learnerLines, Machine } from "./support.js";

let machine: Machine;
afterEach(() => machine.remove());

const TRIALS = ["trial of blocks", "trial of a faster way"];
/** In the order in which an update comes to them. */
const PLACES = [
  ...["copy of the weights", "probe", "row", "output layer", "backward pass", "clipping", "Adam"],
  "probe afterwards",
];
const NO_MODEL = /^the learner's model does not fit into memory; take a smaller model/;
const NO_UPDATE = "the update does not fit into memory; use a smaller --micro-batch-tokens or --gradient-checkpointing";

it("in each place of an update, where every tensor asks the driver for memory", async () => {
  machine = new Machine(["4090"]);
  const args = ["memory", machine.folder, "--places", ...TRIALS, ...PLACES];
  const env = { NULLCUDA_NO_DATA: "1", PYTORCH_NO_CUDA_MEMORY_CACHING: "1" };
  const [full, opened, ...steps] = await learnerLines(machine, args, env);
  expect(full).toMatchObject({ what: "open", code: "memory", message: expect.stringMatching(NO_MODEL) });
  expect(full?.held).toBe(full?.before);
  expect(opened).toMatchObject({ what: "open", code: null });
  const last = steps.pop();
  expect(steps.map(({ what }) => what)).toEqual([...TRIALS, ...PLACES]);
  for (const step of steps) expect(step).toMatchObject({ reached: true, code: "memory", message: NO_UPDATE });
  // Before the first row the trial makes what stays: cuBLAS's workspace, joint matrices, adapters in 16 bits.
  const rows = steps.slice(TRIALS.length);
  // Gradients of the adapters stay until the next update: of 63,488 numbers, in f32.
  const gradients = 4 * 63_488;
  for (const { what, held, before } of rows)
    expect([what, Number(held) - Number(before) <= gradients]).toEqual([what, true]);
  expect(last).toMatchObject({ what: "step", code: null, notes: [] });
});
