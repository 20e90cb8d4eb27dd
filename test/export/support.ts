/** A run with one checkpoint, without the hours in which it would have been trained. */
import { copyFileSync, cpSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { Checkpoints } from "../../src/core/run/checkpoints.js";
import type { Evaluation } from "../../src/core/run/records.js";
import { RunStore } from "../../src/core/run/store.js";
import { Random } from "../../src/core/util/random.js";
import { loadEngine } from "../../src/engine/factory.js";
import { modelFingerprint, modelShape } from "../../src/engine/models.js";
import type { ExportConfig } from "../../src/machine/export/export.js";
import { ensureLearnerPython } from "../support/python.js";

export const family = "qwen2-tiny";
export const adapterOf = (name = family) => modelPath(`${name}-adapter-1`);
export const modelOf = (name = family) => modelPath(`${name}-f16.gguf`);

/** Options of an export of the run "counted" of a home folder. */
export const configIn = (home: string, python: string, given: Partial<ExportConfig>) =>
  ({
    home,
    run: "counted",
    force: false,
    python,
    hfEndpoint: "http://127.0.0.1:1",
    hfOffline: false,
    ...given,
  }) as ExportConfig;

/** The learner's Python, with the test models made. */
export async function prepared(): Promise<string> {
  const python = await ensureLearnerPython();
  await ensureTestModels(["tiny"], () => undefined);
  return python;
}

const result = (successes: number): Evaluation => ({
  n: 50,
  successes,
  success: successes / 50,
  low: 0.1,
  high: 0.9,
  reward: successes / 50,
  turns: 4,
  completion_tokens: 120,
  parts: {},
  kinds: {},
  ends: {},
  tool_errors: {},
  failures: 0,
  unjudged: {},
});

/** @returns the run's folder, in `home` under the project "p" */
export async function trainedRun(home: string, name: string, options: object = {}): Promise<string> {
  const folder = join(home, "p/models", name);
  mkdirSync(folder, { recursive: true });
  const model = modelOf();
  const contents = { model: modelFingerprint(model), task: "counting" };
  const lora = {
    rank: 8,
    alpha: 16,
    targets: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
  };
  const checkpoints = new Checkpoints(join(folder, "checkpoints"));
  const draft = checkpoints.draft(4);
  mkdirSync(join(draft, "adapter"), { recursive: true });
  for (const file of ["adapter_config.json", "adapter_model.safetensors"]) {
    cpSync(join(adapterOf(), file), join(draft, "adapter", file));
  }
  copyFileSync(`${adapterOf()}.gguf`, join(draft, "adapter.gguf"));
  const { adapter } = await checkpoints.publish(4, { run: name, model: contents.model, lora });
  const store = RunStore.open(join(folder, "run.sqlite"));
  const settings = {
    model,
    task: "/home/somebody/counting.ts",
    reward: "task",
    loss: "dapo",
    groupsPerStep: 4,
    groupSize: 8,
    seed: 7,
    learningRate: 1e-4,
    loraRank: 8,
    loraAlpha: 16,
    loraTargets: lora.targets,
    temperature: 1,
    context: 512,
    maxTurns: 6,
    ...options,
  };
  store.begin(
    { name, created: "2031-01-01T00:00:00Z", options: settings, contents },
    { checkpoint: null, adapter: null },
  );
  store.commitValidation({ step: 0, checkpoint: null, result: result(10), seconds: 1 });
  for (const step of [1, 2, 3]) {
    store.commitStep({ step, checkpoint: null, adapter: null, metrics: null, timing: null }, []);
  }
  store.commitStep({ step: 4, checkpoint: 4, adapter, metrics: null, timing: null }, []);
  store.commitValidation({ step: 4, checkpoint: 4, result: result(40), seconds: 1 });
  store.close();
  return folder;
}

/**
 * How far a type's rounding may take a model, in parts of what the adapter does. Bits of a weight besides its sign: 11, 8,
 * 7, about 4; rounding is half of the last one, so that it doubles with each bit that is missing.
 */
const FAR = { f16: 2 ** -7, bf16: 2 ** -4, q8_0: 2 ** -4, q4_k_m: 2 ** -1 } as const;
const TYPES = { f16: /^F16$/, bf16: /^BF16$/, q8_0: /^Q8_0$/, q4_k_m: /^Q[4-8]/ } as const;

const random = new Random("export");
const tokens = Int32Array.from({ length: 120 }, () => random.integer(0, 200));

async function scores(model: string, adapter?: string): Promise<Float32Array> {
  const engine = await loadEngine({ model, gpu: false, threads: 1, sequences: 1, contextPerSequence: 256 });
  try {
    if (adapter !== undefined) await engine.useAdapter(adapter);
    return await engine.score(tokens);
  } finally {
    await engine.close();
  }
}

export const meanDistance = (a: Float32Array, b: Float32Array) =>
  a.reduce((sum, value, i) => sum + Math.abs(value - (b[i] as number)), 0) / a.length;

/** Compares a merged file with the engine that plays the adapter, and prints how far they are apart. */
export async function checkNear(file: string, type: keyof typeof FAR): Promise<void> {
  expect((await modelShape(file)).weightType).toMatch(TYPES[type]);
  const wanted = await scores(modelOf(), `${adapterOf()}.gguf`);
  const effect = meanDistance(await scores(modelOf()), wanted);
  const distance = meanDistance(await scores(file), wanted);
  const limit = effect * FAR[type];
  const nats = [distance, limit, effect].map((value) => value.toFixed(4));
  console.log(
    `${type}: ${nats[0]} nats a token from the engine with the adapter, at most ${nats[1]}; it moves ${nats[2]}`,
  );
  expect(distance).toBeLessThan(limit);
}
