/** Unsloth in the learner's real process, beside the engine. */
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { writeBatch } from "../../src/core/learn/batch.js";
import { startLearner } from "../../src/core/learn/learner.js";
import { BUILDS, madeEnvironments } from "../../src/engine/device/environment.js";
import { loadEngine } from "../../src/engine/factory.js";
import { mismatchLimit } from "../../src/guards/mismatch.js";
import { play, settings, step } from "../learn/support.js";
import { ensureLearnerPython } from "../support/python.js";

// `yarn test` installs it where that can be done (scripts/test-ground.mjs).
const here = madeEnvironments(BUILDS, ["unsloth"]).length > 0;
const why = here ? "" : " (skipped: Unsloth is not installed)";

describe("the learner with Unsloth", () => {
  it.skipIf(!here)(`updates the policy that the engine plays${why}`, { timeout: 600_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), "hone-unsloth-test-"));
    await ensureTestModels(["tiny"], () => undefined);
    const gguf = modelPath("qwen2-tiny-f16.gguf");
    const engine = await loadEngine({ model: gguf, gpu: false, threads: 1, sequences: 8, contextPerSequence: 256 });
    const batch = join(folder, "batch.safetensors");
    await writeBatch(batch, await play(engine, 2, 4), { temperature: 1 });
    const limit = mismatchLimit(engine.info.weightType);
    await engine.close();
    const python = await ensureLearnerPython();
    const done: Record<string, { mismatch: number; loss: number | null }> = {};
    for (const backend of ["peft", "unsloth"] as const) {
      const log = join(folder, `${backend}.log`);
      const learner = await startLearner({ ...settings(python, log), backend, base: { gguf } });
      try {
        expect(learner.info.backend).toBe(backend);
        const into = join(folder, backend);
        mkdirSync(into);
        const metrics = await learner.step({ ...step, batch, into });
        expect(metrics.mismatch.mean).toBeLessThan(limit);
        expect(existsSync(join(into, "adapter.gguf"))).toBe(true);
        done[backend] = { mismatch: metrics.mismatch.mean, loss: metrics.loss };
      } finally {
        await learner.close();
      }
      // On a GPU Unsloth replaces parts of libraries that must not have been imported before it.
      expect(readFileSync(log, "utf8")).not.toContain("should be imported before");
    }
    expect(done.unsloth?.mismatch).toBeCloseTo(done.peft?.mismatch ?? Number.NaN, 5);
    expect(done.unsloth?.loss).toBeCloseTo(done.peft?.loss ?? Number.NaN, 5);
    rmSync(folder, { recursive: true });
  });
});
