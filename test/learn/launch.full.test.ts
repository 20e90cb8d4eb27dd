/** A learner of several processes, started by PyTorch's torchrun: its updates are those of one, and none of them is left. */
import { mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { writeBatch } from "../../src/core/learn/batch.js";
import { LearnerDied, LearnerRefused } from "../../src/core/learn/errors.js";
import { startLearner } from "../../src/core/learn/learner.js";
import { loadEngine } from "../../src/engine/factory.js";
import { below, gone, ranksBelow } from "../support/processes.js";
import { ensureLearnerPython } from "../support/python.js";
import { play, settings, step } from "./support.js";

const folder = mkdtempSync(join(tmpdir(), "hone-launch-"));
const TWO = "torchrun --nproc-per-node 2";

describe("a learner of two ranks", () => {
  let base: Parameters<typeof startLearner>[0];
  let batch: string;

  beforeAll(async () => {
    const python = await ensureLearnerPython();
    await ensureTestModels(["tiny"], () => undefined);
    const gguf = modelPath("qwen2-tiny-f32.gguf");
    base = { ...settings(python, join(folder, "learner.log")), base: { gguf } };
    batch = join(folder, "batch.safetensors");
    const engine = await loadEngine({ model: gguf, gpu: false, threads: 1, sequences: 8, contextPerSequence: 256 });
    await writeBatch(batch, await play(engine, 3, 4), { temperature: 1 });
    await engine.close();
  }, 900_000);

  const adapter = (name: string) => readFileSync(join(folder, name, "adapter", "adapter_model.safetensors"));

  it("computes the updates of one process, goes on after the death of a rank, and leaves no process", async () => {
    const asked = { ...step, batch, minibatches: 2 };
    const alone = await startLearner(base);
    const wanted = await alone.step({ ...asked, into: join(folder, "alone") });
    await alone.close();

    const ranks = await startLearner({ ...base, launch: TWO });
    expect(ranks.info.ranks).toBe(2);
    const first = await ranks.step({ ...asked, into: join(folder, "first") });
    expect(first).toMatchObject({ applied: true, updates: 2, tokens: { sampled: wanted.tokens.sampled } });
    // Sums over two processes are rounded in another order; what a rank leaves out or counts twice is a part of the whole.
    expect(first.loss).toBeCloseTo(wanted.loss as number, 3);
    expect((first.gradNorm as number) / (wanted.gradNorm as number)).toBeCloseTo(1, 2);
    // The distance itself is but rounding here.
    expect(Math.max(first.mismatch.p99, wanted.mismatch.p99)).toBeLessThan(1e-3);
    await ranks.step({ ...asked, into: join(folder, "second") });

    const killed = below(ranks.pid).map(({ pid }) => pid);
    const [one, other] = ranksBelow(ranks.pid) as [number, number];
    // The log has what a rank says, and the last line which one ended.
    const dying = ranks.step({ ...asked, epochs: 1000, into: join(folder, "never") }).catch((error: unknown) => error);
    await sleep(1000);
    process.kill(Math.max(one, other), "SIGKILL");
    const error = await dying;
    expect(error).toBeInstanceOf(LearnerDied);
    expect((error as Error).message).toMatch(/ended with code 1; its last line: learner: rank \d of 2 ended \(log: /);
    await ranks.close();
    expect(await gone([ranks.pid, ...killed])).toBe(true);

    const again = await startLearner({ ...base, launch: TWO, resume: join(folder, "first") });
    await again.step({ ...asked, into: join(folder, "again") });
    const closed = below(again.pid).map(({ pid }) => pid);
    expect(closed.length).toBeGreaterThanOrEqual(6);
    await again.close();
    expect(adapter("again").equals(adapter("second"))).toBe(true);
    expect(await gone([again.pid, ...closed])).toBe(true);
  });

  it.each([
    ["no-such-launcher 2", LearnerRefused, /^--learner-launch "no-such-launcher 2": there is no program/],
    ["env", LearnerRefused, /^--learner-launch "env": it starts the learner without the variable RANK; give/],
    ["torchrun --no-such-option", LearnerDied, /ended with code 2; its last line: .*--no-such-option/],
  ])("does not start with %s", async (launch, kind, message) => {
    const error = await startLearner({ ...base, launch }).catch((thrown: unknown) => thrown);
    expect(error).toBeInstanceOf(kind);
    expect((error as Error).message).toMatch(message);
    expect((error as Error).message).not.toContain("\n");
  });
});
