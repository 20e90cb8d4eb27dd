/** The adapters that trackers are sent at the end of a training. */
import { expect, it } from "vitest";
import type { Run } from "../../src/core/run/run.js";
import type { AdapterMessage } from "../../src/insight/track/process.js";
import type { Tracking } from "../../src/insight/track/tracking.js";
import { endTracking } from "../../src/trainer/tracked.js";

async function sentOf(last: number | null, rewards: readonly number[], steps = 9) {
  const sent: AdapterMessage[] = [];
  const validations = rewards.map((reward, step) => ({ step, checkpoint: step, result: { reward, n: 4 } }));
  const store = { lastStep: () => ({ step: 9, checkpoint: last }), validations: () => validations };
  const checkpoints = { pathOf: (step: number) => `/${step}`, adapterOf: (step: number) => `/${step}/adapter.gguf` };
  const tracking = { close: async (_: boolean, adapters: readonly AdapterMessage[]) => sent.push(...adapters) };
  await endTracking(tracking as unknown as Tracking, { store, checkpoints } as unknown as Run, steps);
  return sent.map(({ step, aliases }) => [step, ...aliases]);
}

it("end with the final one, which Weights & Biases then calls the latest", async () => {
  expect(await sentOf(9, [0.1, 0.7, 0.5])).toEqual([
    [1, "best"],
    [9, "final"],
  ]);
  expect(await sentOf(1, [0.1, 0.7, 0.5])).toEqual([[1, "best", "final"]]);
  expect(await sentOf(9, [])).toEqual([[9, "final"]]);
  expect(await sentOf(9, [0.1, 0.7, 0.5], 10)).toEqual([]);
});
