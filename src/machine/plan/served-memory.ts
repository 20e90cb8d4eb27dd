/**
 * The memory of rollouts on vLLM servers: what this process needs to tokenize and to check them, and the server that hone
 * starts. Servers that somebody else runs are not counted.
 */
import { processMemory } from "./engine-memory.js";
import { kvBytesOfServer, type PlanInput, type PlanRow, type Rows } from "./input.js";

/** vLLM's two processes without a model, on a CPU; measured. */
const SERVER = 1.4e9;
/** What a sleeping server keeps on a GPU: two CUDA contexts with their libraries. Not run on CUDA here. */
const ASLEEP = 1.5e9;

/** Rows of the host, and of the GPU where the server computes there. */
export function servedRows(input: PlanInput): { host: Rows; gpu: Rows | null } {
  const { shape, gpu, served } = input;
  const own = served?.own;
  const here: PlanRow[] = [
    { name: "engine: process", bytes: processMemory(shape) },
    { name: "engine: weights for comparison", bytes: shape.bytes },
  ];
  if (!own) return { host: { playing: here, sleeping: here }, gpu: null };
  const itself: PlanRow = { name: "vLLM: processes", bytes: SERVER };
  if (gpu === "cuda") {
    const asleep: PlanRow = { name: "vLLM: asleep", bytes: ASLEEP };
    const weights: PlanRow = { name: "vLLM: weights while it sleeps", bytes: shape.bytes };
    return {
      host: { playing: [...here, itself], sleeping: [...here, itself, weights] },
      gpu: { playing: [{ name: "vLLM", bytes: own.gpu }], sleeping: [asleep] },
    };
  }
  const running = [
    itself,
    { name: "vLLM: weights in f32", bytes: 4 * shape.parameters },
    { name: `vLLM: KV of ${input.concurrency} × ${input.context} tokens`, bytes: kvBytesOfServer(input) },
  ];
  return {
    host: { playing: [...here, ...running], sleeping: own.rests === "stops" ? here : [...here, ...running] },
    gpu: null,
  };
}
