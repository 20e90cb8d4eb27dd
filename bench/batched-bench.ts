/** A measurement by llama-batched-bench, with an engine's settings. */
import type { LocalEngine } from "../src/engine/index.js";
import { HoneError } from "../src/util/errors.js";
import { output } from "./llama-tools.js";

export interface BatchedBenchSettings {
  readonly sequences: number;
  readonly prompt: number;
  readonly tokens: number;
}

/** Decode speed in tokens per second, in a process of its own. */
export async function batchedBench(tool: string, engine: LocalEngine, settings: BatchedBenchSettings): Promise<number> {
  const { info } = engine;
  const context = info.contextPerSequence * settings.sequences;
  const args = [
    ...["-m", info.model, "-c", context, "-b", info.batch, "-ub", info.ubatch],
    ...["-npp", settings.prompt, "-ntg", settings.tokens, "-npl", settings.sequences],
    ...["-t", info.threads, "-tb", info.threads, "-ngl", info.gpu === false ? 0 : 999],
    ...["-fa", info.compute.flashAttention === false ? "off" : "auto", "--output-format", "jsonl"],
  ].map(String);
  const { code, text } = await output(tool, args);
  const line = text.split("\n").find((one) => one.startsWith('{"n_kv_max"'));
  const result = line === undefined ? undefined : (JSON.parse(line) as { pl: number; speed_tg: number });
  if (code !== 0 || result?.pl !== settings.sequences) {
    throw new HoneError(`llama-batched-bench ended with code ${code}: ${text.trim().split("\n").at(-1)}`);
  }
  return result.speed_tg;
}
