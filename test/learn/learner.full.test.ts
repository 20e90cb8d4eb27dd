/**
 * The learner and the engine on the same real model files: they must agree on every log-probability, before an update
 * and after it.
 */
import { EventEmitter, once } from "node:events";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { type BatchGroup, writeBatch } from "../../src/core/learn/batch.js";
import { LearnerDied } from "../../src/core/learn/errors.js";
import { CHECKPOINT_FILES, type Learner, startLearner } from "../../src/core/learn/learner.js";
import { importanceModes, objectiveNames, objectiveOf } from "../../src/core/learn/objectives.js";
import type { LearnerSettings } from "../../src/core/learn/types.js";
import { loadEngine } from "../../src/engine/factory.js";
import { mismatchLimit } from "../../src/guards/mismatch.js";
import { ensureLearnerPython } from "../support/python.js";
import { LiveLearner } from "./live-learner.js";
import { play, settings, step } from "./support.js";

const folder = mkdtempSync(join(tmpdir(), "hone-learn-"));
const lora = {
  rank: 8,
  alpha: 16,
  targets: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
};

/** A batch file of two groups that the model has played. */
async function playedBatch(gguf: string, name: string): Promise<string> {
  const engine = await loadEngine({ model: gguf, gpu: false, threads: 1, sequences: 8, contextPerSequence: 256 });
  const batch = join(folder, `${name}.safetensors`);
  await writeBatch(batch, await play(engine, 2, 4), { temperature: 1 });
  await engine.close();
  return batch;
}

/** The same tokens with the engine's log-probabilities of now. */
async function scored(engine: LocalEngine, groups: readonly BatchGroup[]): Promise<BatchGroup[]> {
  const again: BatchGroup[] = [];
  for (const group of groups) {
    const members = group.map(async ({ tokens, advantage }) => {
      const logprobs = [0, ...(await engine.score(Int32Array.from(tokens.ids)))];
      return {
        advantage,
        tokens: { ...tokens, logprobs: logprobs.map((value, i) => value * (tokens.sampled[i] ?? 0)) },
      };
    });
    again.push(await Promise.all(members));
  }
  return again;
}

/** What an update raises: the log-probability of each token times its advantage. */
const objective = (groups: readonly BatchGroup[]) =>
  groups
    .flat()
    .flatMap(({ tokens, advantage }) => tokens.logprobs.map((logprob) => logprob * advantage))
    .reduce((sum, value) => sum + value, 0);

describe("the learner", () => {
  let python: string;
  const live = new LiveLearner();
  const open = (more: Partial<LearnerSettings>) =>
    live.open({ ...settings(python, join(folder, "live.log")), lora, ...more });
  beforeAll(async () => {
    python = await ensureLearnerPython();
    await ensureTestModels(["tiny"], () => undefined);
  }, 900_000);
  afterAll(() => live.close());

  describe.each([
    "qwen2-tiny-f32",
    "qwen3-tiny-f32",
    "llama-tiny-f32",
    "mistral-tiny-f32",
    "smollm3-tiny-f32",
    "granite-tiny-f32",
    "olmo2-tiny-f32",
    "gemma3-tiny-f32",
    "phi3-tiny-f32",
    "lfm2-tiny-f32",
    "yarn-tiny-f32",
    "qwen2-tiny-q8_0",
  ])("on %s", (name) => {
    let engine: LocalEngine;
    let learner: Learner;
    let groups: BatchGroup[];
    const checkpoint = join(folder, name, "0001");

    beforeAll(async () => {
      const gguf = modelPath(`${name}.gguf`);
      engine = await loadEngine({ model: gguf, gpu: false, threads: 1, sequences: 8, contextPerSequence: 256 });
      learner = await open({ base: { gguf } });
      groups = await play(engine, 2, 4);
    });
    afterAll(() => engine.close());

    it("agrees with the engine before the update, and after it", async () => {
      // In f32 both compute the same in another order, see huggingface.full.test.ts; in q8_0 what a run allows.
      // The engine has GELU as a table of f16's numbers on a CPU; the learner computes it.
      const exact = name.startsWith("gemma3") ? 1e-3 : 2e-5;
      const limit = name.endsWith("f32") ? exact : mismatchLimit("Q8_0");
      const batch = join(folder, `${name}.safetensors`);
      await writeBatch(batch, groups, { temperature: 1 });
      const phases = new Set<string>();
      const metrics = await learner.step({
        ...step,
        batch,
        into: checkpoint,
        onProgress: ({ phase }) => phases.add(phase),
      });
      expect(metrics).toMatchObject({ applied: true, groups: 2, trajectories: 8, clip: { below: 0, above: 0 } });
      expect(metrics.mismatch.mean).toBeLessThan(limit);
      expect([...phases]).toEqual(["update", "saving"]);
      for (const file of CHECKPOINT_FILES.lora) expect(existsSync(join(checkpoint, file)), file).toBe(true);

      await engine.useAdapter(join(checkpoint, "adapter.gguf"));
      const after = await scored(engine, groups);
      expect(objective(after)).toBeGreaterThan(objective(groups) + 1);

      await writeBatch(batch, after, { temperature: 1 });
      const same = await learner.step({ ...step, batch, into: join(folder, name, "0002"), learningRate: 0 });
      expect(same.mismatch.mean).toBeLessThan(limit);
    });
  });

  it("has every objective of the table, with several updates on a batch", async () => {
    const base = { gguf: modelPath("qwen2-tiny-f32.gguf") };
    const batch = await playedBatch(base.gguf, "objectives");
    const learner = await open({ base });
    const more = { batch, epochs: 2, minibatches: 2, rollouts: 8, seed: 2 ** 53 - 1, maxCompletionTokens: 64 };
    for (const name of objectiveNames) {
      const into = join(folder, "objectives", name);
      const metrics = await learner.step({ ...step, ...more, objective: objectiveOf(name), into });
      expect(metrics, name).toMatchObject({ applied: true, updates: 4 });
    }
    for (const mode of importanceModes) {
      const into = join(folder, "objectives", mode);
      const metrics = await learner.step({ ...step, ...more, importance: { mode, low: 0.5, high: 2 }, into });
      expect(metrics.applied, mode).toBe(true);
    }
  });

  it("is ended in the middle of an update by close, and goes on from the last checkpoint", async () => {
    const base = { gguf: modelPath("qwen2-tiny-f16.gguf") };
    const batch = await playedBatch(base.gguf, "resume");
    const start = (resume?: string) =>
      startLearner({ ...settings(python, join(folder, "resume.log")), base, lora, ...(resume ? { resume } : {}) });

    const first = await start();
    await first.step({ ...step, batch, into: join(folder, "resume/0001") });
    const heard = new EventEmitter();
    const onProgress = () => void heard.emit("progress");
    const endless = { ...step, batch, into: join(folder, "resume/x"), epochs: 5000, onProgress };
    const begun = once(heard, "progress");
    const broken = first.step(endless).catch((error: unknown) => error);
    await Promise.race([begun, broken]);
    await first.close();
    expect(await broken).toBeInstanceOf(LearnerDied);

    const second = await start(join(folder, "resume/0001"));
    expect(second.info.updates).toBe(1);
    await second.step({ ...step, batch, into: join(folder, "resume/0002") });
    await second.close();
    const straight = await open({ base });
    await straight.step({ ...step, batch, into: join(folder, "straight/0001") });
    await straight.step({ ...step, batch, into: join(folder, "straight/0002") });
    const adapter = (run: string) => readFileSync(join(folder, run, "0002/adapter.gguf"));
    expect(adapter("resume").equals(adapter("straight"))).toBe(true);
  });

  it("refuses a model it cannot train, in one line", async () => {
    const base = { gguf: modelPath("qwen2-tiny-adapter-1.gguf") };
    const error = await open({ base }).catch((thrown: unknown) => thrown);
    expect((error as Error).name).toBe("LearnerRefused");
    expect((error as Error).message).not.toContain("\n");
  });
});
