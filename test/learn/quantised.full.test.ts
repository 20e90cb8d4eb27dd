/**
 * LocalEngine and learner on files that llama.cpp has quantised: one policy, as far as a run asks for it. The tiny model's
 * widths are multiples of 256, as K-quants need them; those that are not (640) have the types that llama.cpp falls back to.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, it } from "vitest";
import { writeBatch } from "../../src/core/learn/batch.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadEngine } from "../../src/engine/factory.js";
import { modelFile, modelShape } from "../../src/engine/models.js";
import { mismatchLimit } from "../../src/guards/mismatch.js";
import { resolveModel } from "../../src/machine/models/resolve.js";
import { ensureLearnerPython } from "../support/python.js";
import { LiveLearner } from "./live-learner.js";
import { play, settings, step } from "./support.js";

const folder = mkdtempSync(join(tmpdir(), "hone-quantised-"));
const script = fileURLToPath(new URL("quantise.py", import.meta.url));
const platform = `linux-${process.arch}`;
const libraries = join(packageRoot, "node_modules/@node-llama-cpp", platform, "bins", platform);
const linux = process.platform === "linux";
const lora = { rank: 8, alpha: 16, targets: ["q_proj", "v_proj", "down_proj"] };

const live = new LiveLearner();
let python: string;
beforeAll(async () => {
  python = await ensureLearnerPython();
}, 900_000);
afterAll(async () => {
  await live.close();
  rmSync(folder, { recursive: true });
});

function quantised(kind: string): string {
  const file = join(folder, `${kind}.gguf`);
  const done = spawnSync(python, [script, libraries, modelFile("tiny"), file, kind], { encoding: "utf8" });
  expect(done.status, done.stderr).toBe(0);
  return file;
}

/** A step of training on a file: the learner's types and the distance from the engine. */
async function trained(gguf: string, name: string) {
  const engine = await loadEngine({ model: gguf, gpu: false, threads: 1, sequences: 8, contextPerSequence: 256 });
  const groups = await play(engine, 2, 4);
  await engine.close();
  const batch = join(folder, `${name}.safetensors`);
  await writeBatch(batch, groups, { temperature: 1 });
  const learner = await live.open({ ...settings(python, join(folder, "live.log")), base: { gguf }, lora });
  const metrics = await learner.step({ ...step, batch, into: join(folder, name) });
  expect(metrics).toMatchObject({ applied: true, trajectories: 8 });
  return { weights: learner.info.weights, blocks: learner.info.blocks, distance: metrics.mismatch.mean };
}

const kinds = ["Q4_0", "Q5_0", "Q4_K_M", "Q6_K", "Q2_K", "IQ4_XS"];
const lack = linux ? "" : " (skipped: quantise.py loads Linux's libraries)";
it.skipIf(!linux).each(kinds)(`%s weights train, and engine and learner agree${lack}`, async (kind) => {
  const gguf = quantised(kind);
  const { weightType } = await modelShape(gguf);
  const { weights, blocks, distance } = await trained(gguf, kind);
  // Each of these mixtures has tensors of a type that the learner keeps as blocks.
  expect(blocks).toBe(true);
  expect(weights).toBe(weightType.toLowerCase());
  expect(distance).toBeLessThan(mismatchLimit(weightType));
});

it.skipIf(!linux).each([
  ["f16", 0.003],
  ["f32", 1e-4],
] as const)(`engine and learner are closer with the same weights written as %s${lack}`, async (weights, most) => {
  const model = quantised("Q4_K_M");
  const hub = { hfEndpoint: "", hfToken: undefined, hfOffline: true, hfHome: undefined, hfCache: folder };
  const said: string[] = [];
  const io = { log: (line: string) => said.push(line), update: () => undefined };
  const gguf = await resolveModel(model, { ...hub, home: folder, weights, python, torchIndex: undefined }, io);
  expect(said[0]).toMatch(/^writing the q4_k weights of Q4_K_M\.gguf as f\d\d, once$/);
  const found = await trained(gguf, weights);
  expect(found.weights).toBe(weights);
  expect(found.distance).toBeLessThan(most);
});
