/**
 * A context of 32,768 tokens whose RoPE is stretched by YaRN: the learner's log-probabilities of rollouts that end there are the
 * engine's, before an update and after it.
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { writeBatch } from "../../src/core/learn/batch.js";
import { startLearner } from "../../src/core/learn/learner.js";
import { loadEngine } from "../../src/engine/factory.js";
import { ensureLearnerPython } from "../support/python.js";
import { play, settings, step } from "./support.js";

const CONTEXT = 32_768;
/** What is sampled and appended behind a prompt. */
const PLAYED = 100;

it("engine and learner agree at the end of 32,768 tokens, before an update and after it", async () => {
  const python = await ensureLearnerPython();
  await ensureTestModels(["tiny"], () => undefined);
  const folder = mkdtempSync(join(tmpdir(), "hone-long-"));
  const gguf = modelPath("yarn-tiny-f32.gguf");
  const engine = await loadEngine({ model: gguf, gpu: false, threads: 2, sequences: 4, contextPerSequence: CONTEXT });
  const lora = { rank: 4, alpha: 8, targets: ["q_proj", "k_proj", "v_proj", "down_proj"] };
  const learner = await startLearner({
    ...settings(python, join(folder, "learner.log")),
    base: { gguf },
    lora,
    threads: 2,
  });
  const batch = join(folder, "batch.safetensors");
  const learnt = async (name: string, learningRate: number) => {
    const groups = await play(engine, 1, 4, CONTEXT - PLAYED);
    await writeBatch(batch, groups, { temperature: 1 });
    const tokens = groups.flat().map(({ tokens }) => tokens.ids.length);
    expect(Math.max(...tokens)).toBeGreaterThan(CONTEXT - PLAYED + 24);
    return await learner.step({
      ...step,
      batch,
      into: join(folder, name),
      learningRate,
      microBatchTokens: CONTEXT + 4 * PLAYED,
    });
  };

  const before = await learnt("0001", step.learningRate);
  expect(before).toMatchObject({ applied: true, trajectories: 4 });
  expect(before.mismatch.mean).toBeLessThan(2e-5);
  await engine.useAdapter(join(folder, "0001", "adapter.gguf"));
  const after = await learnt("0002", 0);
  expect(after.mismatch.mean).toBeLessThan(2e-5);

  await learner.close();
  await engine.close();
});
