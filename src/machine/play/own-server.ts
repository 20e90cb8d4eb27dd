/** The vLLM server that hone starts itself: its packages, its environment, and where the model is for it. */
import { mkdirSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import type { OwnServerOptions } from "../../core/engine/engine.js";
import { modelShape } from "../../engine/models.js";
import { decodeThreads } from "../../engine/threads.js";
import { modelFolder } from "../models/folder.js";
import type { ModelIo } from "../models/io.js";
import { kvBytesOfServer } from "../plan/input.js";
import { ensureVllm } from "../python/vllm.js";
import type { EngineChoice, WantedEngine } from "./engine-choice.js";

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

export async function ownServer(
  config: EngineChoice,
  wanted: WantedEngine,
  gpu: boolean,
  io: ModelIo,
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
    folder: await modelFolder(wanted.model, config, io),
    // On a CPU 16 bits are slower than 32.
    dtype: gpu ? (GPU_TYPES[weightType as keyof typeof GPU_TYPES] ?? "bfloat16") : "float32",
    gpu,
    memoryShare: config.engineMemory,
    rests: wanted.rests ?? "stays",
    logFile,
  };
}
