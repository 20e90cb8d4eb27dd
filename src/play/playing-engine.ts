/** The engine that plays, by the options `--engine` to `--engine-memory`: of this process, or vLLM servers. */

import { existsSync, mkdirSync, readFileSync } from "node:fs";
import { createServer } from "node:net";
import { dirname, join, resolve } from "node:path";
import type { Config } from "../config/config.js";
import type { EngineOptions, OwnServerOptions, PolicyEngine, VllmOptions } from "../engine/engine.js";
import { loadEngine } from "../engine/factory.js";
import { modelShape } from "../engine/models.js";
import { engineOptions, gpuChosen, type MachineChoice } from "../engine/options.js";
import { decodeThreads } from "../engine/threads.js";
import { joinOptions } from "../engine/vllm/engine.js";
import { modelFolder } from "../models/folder.js";
import { linesTo } from "../models/io.js";
import { kvBytesOfServer } from "../plan/input.js";
import { ensureVllm } from "../python-env/vllm.js";
import { UsageError } from "../util/errors.js";
import { loadFitting } from "./fitting.js";

export type EngineChoice = MachineChoice &
  Pick<Config, "engine" | "engineUrl" | "engineAdapters" | "enginePython" | "engineMemory" | "home" | "python"> &
  Partial<Pick<Config, "torchIndex" | "releaseWeights" | "offForm">>;

export interface WantedEngine {
  readonly model: string;
  readonly sequences: number;
  readonly contextPerSequence: number;
  /** By default the engine chooses. */
  readonly lanes?: number | undefined;
  /** Rank of the adapters that will be loaded; undefined where none will be. */
  readonly adapterRank: number | undefined;
  /** What hone's own server does while the learner computes; by default nothing is learnt. */
  readonly rests?: OwnServerOptions["rests"];
  /** Of hone's own server; default in `--home`. */
  readonly logFile?: string;
}

export interface PlayingEngine {
  readonly engine: PolicyEngine;
  /** What other threads load it by. */
  readonly options: EngineOptions;
}

const firstSet = (values: Readonly<Record<string, unknown>>) =>
  Object.entries(values).find(([, value]) => value !== undefined)?.[0];

/** @throws UsageError for addresses that are none, and for options of one engine given to the other */
export function checkEngineChoice({
  engine,
  engineUrl,
  engineAdapters,
  enginePython,
  releaseWeights,
  offForm,
}: EngineChoice): void {
  if (engine !== "vllm") {
    const ofServers = {
      "--engine-url": engineUrl,
      "--engine-adapters": engineAdapters,
      "--engine-python": enginePython,
    };
    const given = firstSet(ofServers);
    if (given) throw new UsageError(`${given} is for --engine vllm; give that too, or leave ${given} out`);
    return;
  }
  if (releaseWeights) throw new UsageError("--release-weights is for --engine llama.cpp; leave it out with vllm");
  if (offForm === "prevent") {
    throw new UsageError("--off-form prevent samples under a grammar, which hone does with --engine llama.cpp alone");
  }
  if (engineUrl && enginePython)
    throw new UsageError("--engine-python is for a server that hone starts; leave it out with --engine-url");
  for (const url of engineUrl ?? []) {
    const parsed = URL.canParse(url) ? new URL(url) : undefined;
    if (parsed?.protocol !== "http:" || parsed.pathname !== "/" || parsed.search !== "") {
      throw new UsageError(`--engine-url ${url}: give the address of a vLLM server alone, as http://127.0.0.1:8000`);
    }
  }
  const origins = (engineUrl ?? []).map((url) => new URL(url).origin);
  const twice = origins.find((one, i) => origins.indexOf(one) < i);
  if (twice) throw new UsageError(`--engine-url ${twice} is there twice; name each server once`);
}

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

/** What vLLM on a CPU is told: its KV in GiB, and threads that sleep where they wait, as the learner wants the cores too. */
async function onCpu({ threads }: EngineChoice, { model, sequences, contextPerSequence }: WantedEngine) {
  const shape = await modelShape(model);
  const kv = kvBytesOfServer({ shape, concurrency: sequences, context: contextPerSequence }) / 2 ** 30;
  return {
    VLLM_CPU_KVCACHE_SPACE: String(kv),
    OMP_NUM_THREADS: process.env.OMP_NUM_THREADS ?? String(decodeThreads(threads)),
    OMP_WAIT_POLICY: process.env.OMP_WAIT_POLICY ?? "PASSIVE",
  };
}

const GPU_TYPES = { F16: "float16", BF16: "bfloat16", F32: "float32" } as const;

async function ownServer(
  config: EngineChoice,
  wanted: WantedEngine,
  gpu: boolean,
  io: EngineIo,
): Promise<OwnServerOptions> {
  const { weightType } = await modelShape(wanted.model);
  const { python, environment } = await ensureVllm({
    ...config,
    given: config.enginePython,
    cuda: gpu,
    onProgress: io.log,
    signal: io.signal,
  });
  const logFile = resolve(wanted.logFile ?? join(config.home, "logs", "vllm.log"));
  mkdirSync(dirname(logFile), { recursive: true });
  return {
    python,
    environment: gpu ? environment : { ...environment, ...(await onCpu(config, wanted)) },
    folder: await modelFolder(wanted.model, config, linesTo(io.log, io.signal)),
    // On a CPU 16 bits are slower than 32.
    dtype: gpu ? (GPU_TYPES[weightType as keyof typeof GPU_TYPES] ?? "bfloat16") : "float32",
    gpu,
    memoryShare: config.engineMemory,
    rests: wanted.rests ?? "stays",
    logFile,
  };
}

export interface EngineIo {
  readonly log: (line: string) => void;
  readonly signal?: AbortSignal | undefined;
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
  io: EngineIo,
): Promise<PlayingEngine> {
  checkEngineChoice(config);
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
    ...{ model, sequences, contextPerSequence, adapterRank },
    urls: urls ?? [`http://127.0.0.1:${await freePort()}`],
    adapters: resolve(config.engineAdapters ?? join(config.home, "engine-adapters")),
    gpu: gpuChosen(config),
    ...(urls ? {} : { own: await ownServer(config, wanted, cuda, io) }),
    ...(io.signal ? { signal: io.signal } : {}),
  };
  const engine = await loadEngine(options, io.log);
  return { engine, options: joinOptions(options, engine) };
}
