/** The devices as actually loaded: a line for people, and facts that a run records. */

import type { LocalEngineInfo, ServedEngineInfo } from "../core/engine/engine.js";
import type { LearnerInfo } from "../core/learn/types.js";
import type { Device } from "../core/run/records.js";
import { UBATCH } from "../engine/contexts.js";
import { gpuTitles } from "../engine/missing.js";

type LocalShown = Pick<LocalEngineInfo, "compute" | "lanes" | "threads" | "ubatch" | "llamaVersion">;
type ServedShown = Pick<ServedEngineInfo, "compute" | "servers">;
type Recorded = Pick<LocalEngineInfo, "trainedContext">;

const isServed = (info: LocalShown | ServedShown): info is ServedShown => "servers" in info;

/** As {@link localText}, or "engine: vLLM 0.32.0 at http://127.0.0.1:8000 and http://127.0.0.1:8001" */
export const engineText = (info: LocalShown | ServedShown): string =>
  isServed(info) ? servedText(info) : localText(info);

const servedText = ({ compute: { device, adapters }, servers }: ServedShown) =>
  `engine: ${device} at ${servers.join(" and ")}${adapters ? `, adapters in ${adapters}` : ""}`;

/** "engine: Vulkan, llvmpipe (LLVM 15.0.6, 256 bits): 5 of 5 layers there, F16 weights, F16 KV, 1 thread, llama.cpp 0.5.0" */
function localText({ compute, lanes, threads, ubatch, llamaVersion }: LocalShown): string {
  const { backend, device, offloadedLayers, layers, weights, kv, flashAttention, sampling } = compute;
  const parts = [
    ...(onCpu(compute) ? [] : [`${offloadedLayers} of ${layers} layers there`]),
    `${weights} weights`,
    `${kv} KV`,
    ...(flashAttention ? ["flash attention"] : []),
    ...(sampling === "device" ? ["sampling on the device"] : []),
    ...(lanes > 1 ? [`${lanes} lanes`] : []),
    threads === 1 ? "1 thread" : `${threads} threads`,
    ...(ubatch === UBATCH ? [] : [`passes of ${ubatch} tokens`]),
    `llama.cpp ${llamaVersion}`,
  ];
  const line = `engine: ${[backend === "cpu" ? "CPU" : gpuTitles[backend], device].join(", ")}: ${parts.join(", ")}`;
  if (onCpu(compute) || offloadedLayers >= layers) return line;
  return `${line}\nwarning: ${layers - offloadedLayers} of the model's ${layers} layers are computed by the CPU, for want of memory on ${device}: rollouts will be several times slower.\nFree memory there, give a lower --concurrency or --context, or take a smaller model file`;
}

const onCpu = ({ backend }: LocalEngineInfo["compute"]) => backend === "cpu";

/** What a run records. */
export function engineFacts(info: (LocalShown | ServedShown) & Recorded) {
  const { trainedContext } = info;
  // Addresses may change while a run goes on.
  if (isServed(info)) return { kind: "vllm" as const, ...info.compute, trainedContext, servers: info.servers.length };
  const { compute, lanes, threads, ubatch, llamaVersion } = info;
  return { kind: "llama.cpp" as const, ...compute, trainedContext, lanes, threads, ubatch, llamaVersion };
}

/** What has played a run, each kind once, by what the run records. */
export function engineKinds(devices: readonly Device[]): string[] {
  return [...new Set(devices.filter(({ part }) => part === "engine").map(({ kind }) => String(kind)))];
}

/** "learner: NVIDIA H100 80GB HBM3, bf16, Unsloth 2026.10.9, PyTorch 2.13.0, CUDA 13.0, driver 580.95.05" */
export function learnerText(info: LearnerInfo): string {
  const { backend, device, precision, versions, cuda, offloaded, blocks, weights, ranks = 1 } = info;
  return `learner: ${[
    device,
    precision,
    ...(blocks ? [`weights kept in ${weights}`] : []),
    ...(backend === "unsloth" ? [`Unsloth ${versions.unsloth}`] : []),
    `PyTorch ${versions.torch}`,
    ...(cuda ? [`CUDA ${cuda.version}`] : []),
    ...(cuda?.driver ? [`driver ${cuda.driver}`] : []),
    ...(offloaded && cuda ? ["in main memory between updates"] : []),
    ...(ranks > 1 ? [`${ranks} ranks`] : []),
  ].join(", ")}`;
}

export function learnerFacts({ backend, device, precision, cuda, offloaded, versions }: LearnerInfo) {
  const { python, torch } = versions;
  return { backend, device, precision, cuda, offloaded, python, torch };
}
