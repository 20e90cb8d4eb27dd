/** The engine under test. One thread: the tests' model is small, and other tests may be running beside it. */
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import type { NativeSettings } from "../../src/engine/addon.js";
import { loadEngine } from "../../src/engine/factory.js";
import { afterFile } from "../support/after-file.js";
import { type TinyModel, writeTinyAdapter, writeTinyModel } from "./tiny-model.js";

const folder = join(tmpdir(), `hone-engine-test-${process.pid}`);

let models = 0;

/** A new copy of the model. One file is one engine, so tests with different settings need files of their own. */
export function newModel(like: TinyModel = {}): string {
  const path = join(folder, `tiny-${models++}.gguf`);
  writeTinyModel(path, like);
  return path;
}

export function adapterPath(name: string): string {
  const path = join(folder, `${name}.gguf`);
  writeTinyAdapter(path, name);
  return path;
}

export function options(more: Partial<LocalEngineOptions> = {}): LocalEngineOptions {
  return { model: newModel(), gpu: false, threads: 1, sequences: 4, contextPerSequence: 512, ...more };
}

const open = new Set<LocalEngine>();

export async function testEngine(
  more: Partial<LocalEngineOptions> = {},
  log?: (line: string) => void,
): Promise<LocalEngine> {
  const engine = await loadEngine(options(more), log);
  open.add(engine);
  return engine;
}

export async function close(engine: LocalEngine): Promise<void> {
  open.delete(engine);
  await engine.close();
}

afterFile(async () => {
  for (const engine of open) await close(engine);
});

/**
 * Logprobs that differ by more than this are not the same computation. Batches of other shapes add in another order: a
 * sum of the tiny model (f32, 128 terms at most) is off by 128 · 2⁻²⁴ of its size at worst, fourteen such products
 * follow each other, and logits are below 10: 1e-3. A wrong position, adapter or neighbour changes more than 0.1.
 */
export const ROUNDING = 1e-3;

/** Tokens of a text in the tiny model's vocabulary of bytes. */
export function prompt(text: string): Int32Array {
  return Int32Array.from(Buffer.from(text));
}

export function largestDifference(a: ArrayLike<number>, b: ArrayLike<number>): number {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY;
  return Math.max(0, ...Array.from(a, (value, i) => Math.abs(value - (b[i] as number))));
}

export function concat(...parts: Int32Array[]): Int32Array {
  return Int32Array.from(parts.flatMap((part) => [...part]));
}

/** Complete settings of an engine on the CPU, as small as they may be. */
export const nativeSettings = (model: string, more: Partial<NativeSettings> = {}): NativeSettings => ({
  ...{ model, name: "", useGpu: false, lanes: 1, threads: 1, sequences: 2, contextPerSequence: 256 },
  ...{ batch: 64, ubatch: 64, outputs: 8, exact: false, pooledKv: false, steadyShapes: false },
  ...{ drawOnDevice: false, drawUntried: false, ownDecoder: false, whyLlama: "", fillGap: 0, samplingThreads: 1 },
  ...more,
});
