/** The engine that plays, by the options `--engine` to `--engine-memory`: of this process, or vLLM servers. */

import { existsSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join, resolve } from "node:path";
import type { VllmOptions } from "../../core/engine/engine.js";
import { UsageError } from "../../core/util/errors.js";
import { engineOptions, gpuChosen } from "../../engine/engine-options.js";
import { joinOptions, loadEngine } from "../../engine/factory.js";
import { loadFitting } from "../../engine/load-fitting.js";
import { modelShape } from "../../engine/models.js";
import type { ModelIo } from "../models/io.js";
import type { EngineChoice, PlayingEngine, WantedEngine } from "./engine-choice.js";

/** Rank of the adapter in PEFT's format beside an adapter file of hone's; undefined where there is none. */
export function rankOf(file: string): number | undefined {
  const config = join(dirname(file), "adapter", "adapter_config.json");
  return existsSync(config) ? (JSON.parse(readFileSync(config, "utf8")) as { r: number }).r : undefined;
}

/** A port of loopback that no program uses now. */
async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/**
 * Loads it; with fewer sequences where memory does not suffice for all.
 *
 * @param cuda whether this machine's engine computes on an NVIDIA GPU
 * @throws UsageError, HoneError as the engines
 */
export async function openPlaying(
  config: EngineChoice,
  wanted: WantedEngine,
  cuda: boolean,
  io: ModelIo,
): Promise<PlayingEngine> {
  const { model, sequences, contextPerSequence, adapterRank, lanes } = wanted;
  if (config.engine !== "vllm") {
    const one = lanes === undefined ? {} : { lanes };
    return loadFitting(engineOptions(config, { model, sequences, contextPerSequence, ...one }), io.log);
  }
  if ((await modelShape(model)).convolution !== undefined) {
    throw new UsageError(
      `--engine vllm: ${model} has layers with convolutions, whose adapters were not tried on vLLM; leave it out`,
    );
  }
  const urls = config.engineUrl?.map((url) => new URL(url).origin);
  const options: VllmOptions = {
    kind: "vllm",
    model,
    sequences,
    contextPerSequence,
    adapterRank,
    urls: urls ?? [`http://127.0.0.1:${await freePort()}`],
    adapters: resolve(config.engineAdapters ?? join(config.home, "engine-adapters")),
    gpu: gpuChosen(config),
    ...(urls ? {} : { own: await (await import("./own-server.js")).ownServer(config, wanted, cuda, io) }),
    ...(io.signal ? { signal: io.signal } : {}),
  };
  const engine = await loadEngine(options, io.log);
  return { engine, options: joinOptions(options, engine) };
}
