/**
 * The train command as a user calls it, on the model that comes with hone: a few real steps, and then the engine with
 * the new adapter gives the tokens the very log-probabilities that the learner gives them after its update.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type BatchGroup, writeBatch } from "../../src/core/learn/batch.js";
import { startLearner } from "../../src/core/learn/learner.js";
import type { TokenRecord } from "../../src/core/rollout/transcript.js";
import { readManifest, verifyCheckpoint } from "../../src/core/run/checkpoints.js";
import { RunStore } from "../../src/core/run/store.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadEngine } from "../../src/engine/factory.js";
import { modelFile } from "../../src/engine/models.js";
import { mismatchLimit } from "../../src/guards/mismatch.js";
import { settings, step } from "../learn/support.js";
import { ensureLearnerPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-steps-"));
const run = join(folder, ".hone", "email", "models", "tiny");
const STEPS = 2;
/** Mean distance of two log-probabilities of one token under the same weights, nats: what a run allows. */
const LIMIT = mismatchLimit("F16");

/** What the last call said beside its result. */
let said = "";

function hone(...args: string[]): string {
  const cli = join(packageRoot, "dist/src/cli.js");
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, encoding: "utf8" });
  expect(status, stderr).toBe(0);
  said = stderr;
  return stdout.trimEnd().split("\n").at(-1) ?? "";
}

/** What the last step learnt from: its rollouts by group. */
function playedTokens(): TokenRecord[][] {
  const store = RunStore.read(join(run, "run.sqlite"));
  try {
    const groups = new Map<string, TokenRecord[]>();
    for (const { scenario, tokens } of store.rollouts("train", STEPS)) {
      if (!tokens) throw new Error(`a rollout of ${scenario.id} has no tokens`);
      groups.set(scenario.id, [...(groups.get(scenario.id) ?? []), tokens]);
    }
    return [...groups.values()];
  } finally {
    store.close();
  }
}

/** The same tokens with the log-probabilities that the engine gives them with an adapter. */
async function scoredWith(adapter: string, groups: readonly TokenRecord[][]): Promise<TokenRecord[][]> {
  const engine = await loadEngine({
    model: modelFile("tiny"),
    gpu: false,
    threads: 1,
    sequences: 4,
    contextPerSequence: 8192,
  });
  try {
    await engine.useAdapter(adapter);
    const score = async (tokens: TokenRecord): Promise<TokenRecord> => {
      const logprobs = [0, ...(await engine.score(Int32Array.from(tokens.ids)))];
      return { ...tokens, logprobs: logprobs.map((value, i) => (tokens.sampled[i] === 1 ? value : 0)) };
    };
    return await Promise.all(groups.map((group) => Promise.all(group.map(score))));
  } finally {
    await engine.close();
  }
}

describe("yarn train on the tiny model", () => {
  let python: string;
  let summary: Record<string, unknown>;

  beforeAll(async () => {
    python = await ensureLearnerPython();
    hone("build-db", "--mailboxes", "4");
    const size = ["--groups-per-step", "2", "--group-size", "4", "--max-turns", "4", "--validate-n", "2"];
    const small = [...size, "--threads", "1"];
    // Rollouts of the untrained model often have equal rewards, of which nothing is learnt; coins differ.
    const rates = ["--learning-rate", "1e-2", "--warmup", "0", "--control", "random-reward"];
    const kept = ["--keep", String(STEPS), "--python", python];
    summary = JSON.parse(
      hone("train", "--model", "tiny", "--steps", String(STEPS), ...small, ...rates, ...kept, "--json"),
    );
  });
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  it("says as JSON what came of it", () => {
    const share = { success: expect.any(Number), n: 2, low: expect.any(Number), high: expect.any(Number) };
    expect(summary).toEqual({
      run: "tiny",
      folder: run,
      steps: STEPS,
      seconds: expect.any(Number),
      before: share,
      after: share,
      best: { step: expect.any(Number), success: expect.any(Number) },
      mismatch: { mean: expect.any(Number), p99: expect.any(Number), max: expect.any(Number) },
      judge: null,
      difficulty: null,
      adapter: (summary.best as { step: number }).step === 0 ? null : expect.stringContaining("adapter.gguf"),
      latest: expect.stringContaining("adapter.gguf"),
    });
    expect((summary.mismatch as { mean: number }).mean).toBeLessThan(LIMIT);
  });

  it("says what computes when it has loaded, and keeps it in run.json", () => {
    expect(said.match(/^engine: .*$/gm)).toEqual([expect.stringMatching(/F16 weights, F16 KV, .*llama\.cpp \d/)]);
    expect(said.match(/^learner: .*$/gm)).toEqual([expect.stringMatching(/^learner: cpu, f32, PyTorch \d/)]);
    const { devices } = JSON.parse(readFileSync(join(run, "run.json"), "utf8"));
    const seen = expect.stringMatching(/^\d{4}-\d\d-\d\dT/);
    expect(devices).toHaveLength(2);
    expect(devices).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ part: "engine", weights: "F16", kv: "F16", seen }),
        expect.objectContaining({ part: "learner", device: "cpu", precision: "f32", cuda: null, seen }),
      ]),
    );
  });

  it("leaves a whole checkpoint and one line of metrics for every step", async () => {
    const lines = readFileSync(join(run, "metrics.jsonl"), "utf8").trimEnd().split("\n");
    const metrics = lines.map((line) => JSON.parse(line));
    expect(metrics.map(({ step, checkpoint, skipped }) => ({ step, checkpoint, skipped }))).toEqual([
      { step: 1, checkpoint: 1, skipped: null },
      { step: 2, checkpoint: 2, skipped: null },
    ]);
    for (const line of metrics) {
      expect(Object.keys(line)).toEqual(
        expect.arrayContaining([
          "reward",
          "success",
          "loss",
          "mismatch_kl",
          "mismatch",
          "grad_norm",
          "groups_trainable",
          "tokens",
        ]),
      );
      const { total, ...phases } = line.seconds as Record<string, number>;
      expect(Object.values(phases).reduce((sum, value) => sum + value, 0)).toBeLessThanOrEqual(total as number);
      expect(line.seconds.rollouts).toBeGreaterThan(0);
      expect(line.seconds.update).toBeGreaterThan(0);
      await verifyCheckpoint(join(run, "checkpoints", String(line.step).padStart(4, "0")));
    }
  });

  it("changes the engine's log-probabilities as the learner predicted", async () => {
    const checkpoint = join(run, "checkpoints", String(STEPS).padStart(4, "0"));
    const played = playedTokens();
    const now = await scoredWith(join(checkpoint, "adapter.gguf"), played);

    const learner = await startLearner({
      ...settings(python, join(folder, "check.log")),
      base: { gguf: modelFile("tiny") },
      lora: readManifest(checkpoint).lora,
      resume: checkpoint,
    });
    try {
      /** Mean distance between given log-probabilities and those of the learner after its last update. */
      const distance = async (name: string, groups: readonly TokenRecord[][]) => {
        const batch = join(folder, `${name}.safetensors`);
        const taught: BatchGroup[] = groups.map((group) => group.map((tokens) => ({ tokens, advantage: 1 })));
        await writeBatch(batch, taught, { temperature: 1 });
        return (await learner.step({ ...step, batch, into: join(folder, name), learningRate: 0 })).mismatch.mean;
      };
      const after = await distance("now", now);
      expect(after).toBeLessThan(LIMIT);
      // The same tokens as they were sampled, before this update: the change is no rounding, and is refused.
      await expect(distance("before", played)).rejects.toThrow(
        /^the engine's log-probabilities of tokens .* are not the learner's/,
      );
    } finally {
      await learner.close();
    }
  });
});
