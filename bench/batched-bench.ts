/** A measurement by llama-batched-bench, with an engine's settings. */
import type { LocalEngine } from "../src/core/engine/engine.js";
import { HoneError } from "../src/core/util/errors.js";
import { elsewhere, output, toolEnvironment } from "./llama-tools.js";

export interface BatchedBenchSettings {
  readonly sequences: number;
  readonly prompt: number;
  readonly tokens: number;
}

const TOOL = "llama-batched-bench";
/** At this verbosity it reports devices and layers; nothing more is written while it measures. */
const REPORTING = 4;

/**
 * Decode speed in tokens per second, in a process of its own.
 *
 * @throws HoneError when it fails, or did not compute where the engine does
 */
export async function batchedBench(
  tool: string,
  engine: Pick<LocalEngine, "info">,
  settings: BatchedBenchSettings,
): Promise<number> {
  const { info } = engine;
  const context = info.contextPerSequence * settings.sequences;
  const args = [
    "-m",
    info.model,
    "-c",
    context,
    "-b",
    info.batch,
    "-ub",
    info.ubatch,
    "-npp",
    settings.prompt,
    "-ntg",
    settings.tokens,
    "-npl",
    settings.sequences,
    "-t",
    info.threads,
    "-tb",
    info.threads,
    "-ngl",
    info.compute.offloadedLayers,
    ...(info.gpu === false ? ["--device", "none"] : []),
    "-fa",
    info.compute.flashAttention === false ? "off" : "auto",
    "--output-format",
    "jsonl",
    "-lv",
    REPORTING,
  ].map(String);
  const { code, text } = await output(tool, args, { env: toolEnvironment() });
  const line = text.split("\n").find((one) => one.startsWith('{"n_kv_max"'));
  const result = line === undefined ? undefined : (JSON.parse(line) as { pl: number; speed_tg: number });
  if (code !== 0 || result?.pl !== settings.sequences) {
    throw new HoneError(`${TOOL} ended with code ${code}: ${text.trim().split("\n").at(-1)}`);
  }
  const { layers, devices } = placeOf(text);
  if (layers !== info.compute.offloadedLayers) {
    throw elsewhere(TOOL, layers === 0 ? "" : `${devices.join(", ")} with ${layers} layers`, info);
  }
  if (layers > 0 && !devices.includes(info.compute.device)) throw elsewhere(TOOL, devices.join(", "), info);
  return result.speed_tg;
}

/** From llama.cpp's own report: "using device CUDA0 (NVIDIA GeForce RTX 4090) (0000:01:00.0) - 23660 MiB free". */
function placeOf(text: string): { layers: number; devices: string[] } {
  const layers = Number(/offloaded (\d+)\/\d+ layers to GPU/.exec(text)?.[1] ?? 0);
  const used = text.matchAll(/using device \S+ \((.+)\) \([^()]*\) - \d+ MiB free/g);
  return { layers, devices: [...used].map(([, description]) => description ?? "") };
}
