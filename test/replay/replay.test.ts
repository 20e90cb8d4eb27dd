/** Which steps are replayed, and which step's batch a run's file is: an update that was interrupted leaves that of a step which the run does not have. */
import { mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { writeBatch } from "../../src/core/learn/batch.js";
import type { StepRow } from "../../src/core/run/records.js";
import type { RunSettings } from "../../src/core/run/settings.js";
import { batchOf, type CreditedGroup } from "../../src/core/train/credit.js";
import { rateOfStep } from "../../src/core/train/schedule.js";
import { replayRate } from "../../src/trainer/replay/rate.js";
import { stepsToReplay } from "../../src/trainer/replay/replay.js";
import { replayBatch } from "../../src/trainer/replay/update.js";
import { trajectoryOf } from "../train/support/fakes.js";

const groupOf = (seed: number) => {
  const members = [0, 1].map((index) => ({
    trajectory: trajectoryOf({ index, seed: seed + index }),
    ...{ advantage: index - 0.5, masked: false },
  }));
  return { members, hasSignal: true, rewarded: true } as unknown as CreditedGroup;
};
const groups = [groupOf(1)];
const settings = { kl: 0, temperature: 1 } as RunSettings;

/** What is said of step 3, the last, where the file has this content. */
async function said(write: (file: string) => Promise<unknown> | unknown, isLastUpdate = true) {
  const [folder, scratch] = ["run", "scratch"].map((name) => mkdtempSync(join(tmpdir(), `hone-replay-${name}-`)));
  await write(join(folder as string, "batch.safetensors"));
  const kept = { folder: folder as string, at: { step: 3 } as StepRow, isLastUpdate };
  return replayBatch(kept, { groups, further: 0, inOrder: true }, settings, scratch as string);
}
const written = (of: readonly CreditedGroup[], step?: number) => (file: string) =>
  writeBatch(file, batchOf(of, settings), { temperature: 1, step });

it("the step's own is compared, with a step in it and as runs of before have it", async () => {
  expect(await said(written(groups, 3))).toMatchObject({ result: "same" });
  expect(await said(written(groups))).toMatchObject({ result: "same" });
  expect(await said(written([groupOf(5)], 3))).toMatchObject({ result: "differs" });
  expect(await said(written([groupOf(5)]))).toMatchObject({ result: "differs" });
  expect(await said((file) => writeFileSync(file, "half"))).toMatchObject({ result: "differs" });
});

it("that of an update that was interrupted is none of the step's, and accuses nobody", async () => {
  const check = await said(written([groupOf(5)], 4));
  expect(check).toEqual({
    ...{ part: "batch", result: "skipped" },
    text: "a run keeps the batch of its last update alone, and has that of step 4",
  });
});

it("that of another step of the run is skipped", async () => {
  expect(await said(written([groupOf(5)], 5), false)).toMatchObject({ result: "skipped" });
  expect(await said(written([groupOf(5)]), false)).toMatchObject({ result: "skipped" });
  expect(await said(() => undefined)).toMatchObject({ result: "skipped" });
});

it("the first and the newest step are replayed, one or all where they are asked for", () => {
  expect(stepsToReplay(undefined, 3, "run")).toEqual([1, 3]);
  expect(stepsToReplay(undefined, 1, "run")).toEqual([1]);
  expect(stepsToReplay("2", 3, "run")).toEqual([2]);
  expect(stepsToReplay("all", 3, "run")).toEqual([1, 2, 3]);
  expect(() => stepsToReplay("4", 3, "run")).toThrow("there is no step 4 to replay: run has steps 1 to 3");
  expect(() => stepsToReplay("all", 0, "run")).toThrow("there is no step 1 to replay: run has no step yet");
});

it("the learning rate is that of the step by the run's schedule, also where the run was given more steps since", () => {
  const falling = { learningRate: 1e-3, finalLearningRate: 1e-4, warmup: 2 };
  const result = (schedule: typeof falling, step: number, steps: number, rate: number) =>
    replayRate({ step, metrics: { learning_rate: rate } } as StepRow, { ...schedule, steps }).result;
  for (const schedule of [falling, { ...falling, finalLearningRate: 1e-3 }]) {
    for (const step of [1, 2, 3, 7, 10]) {
      const rate = rateOfStep(schedule, step, 10);
      expect(result(schedule, step, 10, rate)).toBe("same");
      const depends = step > 1 && schedule === falling;
      expect(result(schedule, step, 25, rate)).toBe(depends ? "skipped" : "same");
      expect(result(schedule, step, 10, 1.001 * rate)).toBe("differs");
      expect(result(schedule, step, 10, 0)).toBe("differs");
    }
  }
});
