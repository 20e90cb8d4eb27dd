/**
 * A null card that is full in the middle of an update. Whatever the place, the learner answers "memory" in one line, holds no
 * more of the card than before, and makes the next update when there is room.
 */
import { afterEach, expect, it } from "vitest";
import { type LearnerLine, learnerLines, Machine } from "./support.js";

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
const NO_RETURN =
  /^the learner's weights do not fit beside what is on the GPU \([\d.]+ of [\d.]+ GiB free\); give the engine less/;

const lines = (places: readonly string[], options: readonly string[], env: NodeJS.ProcessEnv) => {
  machine = new Machine(["4090"]);
  const args = ["memory", machine.folder, ...options, "--places", ...places];
  return learnerLines(machine, args, { NULLCUDA_NO_DATA: "1", ...env });
};
const leftOf = ({ held, before }: LearnerLine) => Number(held) - Number(before);

it("in each place of an update, where every tensor asks the driver for memory", async () => {
  const [full, opened, ...steps] = await lines([...TRIALS, ...PLACES], [], { PYTORCH_NO_CUDA_MEMORY_CACHING: "1" });
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
  for (const step of rows) expect([step.what, leftOf(step) <= gradients]).toEqual([step.what, true]);
  expect(last).toMatchObject({ what: "step", code: null, notes: [] });
});

it("with --learner-lifetime offload, when it comes back to a full card and in each place of an update", async () => {
  const [opened, back, ...steps] = await lines(["coming back", ...TRIALS, ...PLACES], ["--lifetime", "offload"], {});
  // Opened in main memory.
  expect([opened?.code, leftOf(opened as LearnerLine)]).toEqual([null, 0]);
  expect(back).toMatchObject({ reached: true, code: "refused", message: expect.stringMatching(NO_RETURN) });
  expect(leftOf(back as LearnerLine)).toBe(0);
  const last = steps.pop();
  for (const step of steps) expect(step).toMatchObject({ reached: true, code: "memory", message: NO_UPDATE });
  // PyTorch's allocator gives back all that it kept; what the trial makes once stays, and the weights do not.
  for (const step of steps.slice(TRIALS.length)) expect([step.what, leftOf(step)]).toEqual([step.what, 0]);
  expect(last).toMatchObject({ what: "step", code: null, notes: [] });
  expect(leftOf(last as LearnerLine)).toBe(0);
});
