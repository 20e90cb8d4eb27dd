/** Stand-ins for vLLM servers, each a process of its own, and adapters for the tiny model. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Engine, LocalEngine, VllmOptions } from "../../../src/core/engine/engine.js";
import { safetensors } from "../../../src/core/learn/safetensors.js";
import { Random } from "../../../src/core/util/random.js";
import { loadEngine } from "../../../src/engine/factory.js";
import { modelFile, modelShape } from "../../../src/engine/models.js";
import { writeGguf } from "../tiny-model.js";

export const model = modelFile("tiny");
export const CONTEXT = 1024;

export interface StandIn {
  readonly url: string;
  /** Ends it as a crash does. */
  kill(): Promise<void>;
}

/**
 * @param wrong what it does wrong; see stand-in.mjs
 * @param port default one that is free
 */
export async function startStandIn(wrong: object = {}, port = 0): Promise<StandIn> {
  const settings = JSON.stringify({ model, port, contextPerSequence: CONTEXT, ...wrong });
  const child: ChildProcess = spawn(process.execPath, [join(import.meta.dirname, "stand-in.mjs"), settings], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const [first] = await Promise.race([once(child.stdout as NodeJS.ReadableStream, "data"), once(child, "exit")]);
  const [, at] = /^ready (\d+)\n/.exec(String(first)) ?? [];
  if (at === undefined) throw new Error(`the stand-in did not start: ${first}`);
  const kill = async () => {
    if (child.exitCode !== null || child.signalCode !== null) return;
    const ended = once(child, "exit");
    child.kill("SIGKILL");
    await ended;
  };
  return { url: `http://127.0.0.1:${at}`, kill };
}

export const newFolder = () => mkdtempSync(join(tmpdir(), "hone-vllm-test-"));

export function vllmOptions(servers: readonly StandIn[], more: Partial<VllmOptions> = {}): VllmOptions {
  return {
    ...{ kind: "vllm", model, sequences: 8, contextPerSequence: CONTEXT, adapterRank: 4, gpu: false },
    urls: servers.map(({ url }) => url),
    adapters: newFolder(),
    ...more,
  };
}

/**
 * Log-probabilities that differ by more than this are not the same computation: the KV of the tiny model is in f16 (2⁻¹¹), its
 * logits are below 20, and batches of other shapes round otherwise. Another adapter changes more than 0.1.
 */
export const ROUNDING = 0.03;

export const largest = (one: ArrayLike<number>, other: ArrayLike<number>) =>
  Math.max(...Array.from(one, (value, i) => Math.abs(value - (other[i] as number))));

export const prompt = (engine: Engine) =>
  engine.tokenize("The meeting with the new supplier was moved to", { special: false });

export type Served = Awaited<ReturnType<typeof openOn>>;

export const openOn = (servers: readonly StandIn[], more: Partial<VllmOptions> = {}, log: string[] = []) =>
  loadEngine(vllmOptions(servers, more), (line) => log.push(line));

export const localEngine = (name = ""): Promise<LocalEngine> =>
  loadEngine({
    ...{ model, name, gpu: false, threads: 1, lanes: 1, sequences: 8, contextPerSequence: CONTEXT },
  });

/** Writes an adapter as a checkpoint has it, in GGUF and in PEFT's format; different names give different ones. */
export async function writeAdapter(name: string, { rank = 4, zero = false } = {}): Promise<string> {
  const folder = join(newFolder(), name);
  const peft = join(folder, "adapter");
  mkdirSync(peft, { recursive: true });
  const { layers, embedding, feedForward } = await modelShape(model);
  const random = new Random("vllm adapter", name);
  const numbers = (count: number, size: number) =>
    Float32Array.from({ length: count }, () => (random.float() - 0.5) * size);
  const all = Array.from({ length: layers }, (_, layer) => ({
    layer,
    a: numbers(rank * feedForward, 2 / Math.sqrt(feedForward)),
    b: zero ? new Float32Array(embedding * rank) : numbers(embedding * rank, 0.5),
  }));
  const tensors = all.flatMap(({ layer, a, b }) => {
    const of = `base_model.model.model.layers.${layer}.mlp.down_proj.lora_`;
    return [
      [`${of}A.weight`, { dtype: "F32" as const, shape: [rank, feedForward], data: a }],
      [`${of}B.weight`, { dtype: "F32" as const, shape: [embedding, rank], data: b }],
    ] as const;
  });
  writeFileSync(join(peft, "adapter_model.safetensors"), safetensors(Object.fromEntries(tensors), { format: "pt" }));
  const config = { peft_type: "LORA", r: rank, lora_alpha: 2 * rank, target_modules: ["down_proj"], bias: "none" };
  writeFileSync(join(peft, "adapter_config.json"), JSON.stringify(config));
  const file = join(folder, "adapter.gguf");
  writeGguf(
    file,
    {
      "general.type": { text: "adapter" },
      "general.architecture": { text: "qwen2" },
      "adapter.type": { text: "lora" },
      "adapter.lora.alpha": { f32: 2 * rank },
    },
    all.flatMap(({ layer, a, b }) => [
      { name: `blk.${layer}.ffn_down.weight.lora_a`, shape: [feedForward, rank], data: a },
      { name: `blk.${layer}.ffn_down.weight.lora_b`, shape: [rank, embedding], data: b },
    ]),
  );
  return file;
}
