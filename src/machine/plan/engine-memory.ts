/**
 * The engine's memory, computed as llama.cpp allocates it: the sizes agree with those that it logs when it loads a model
 * ("KV buffer size", "compute buffer size", "output buffer size"), on a CPU and on Vulkan to within 2 MB.
 */

import { LINEAR_LAYERS } from "../../core/learn/types.js";
import { pooledByDefault, SCORE_ROWS, UBATCH } from "../../engine/contexts.js";
import { attendingLayers } from "../../engine/models.js";
import { adaptedLinears } from "../linears.js";
import { adapterParameters, judgeContext, type PlanInput } from "./input.js";

/** llama.cpp allocates the KV of each sequence in steps of this many tokens. */
const CELL_STEP = 256;
/**
 * Node with the addon and its rollout workers, without a model; measured, as are the following constants: per entry of the
 * vocabulary, the memory of a model's two tokenizers.
 */
const PROCESS = 0.15e9;
export const WORKERS = 0.11e9;
const PER_VOCABULARY_ENTRY = 400;
/**
 * A process that computes on CUDA: its context with the kernels of ggml; for each of llama.cpp's contexts cuBLAS's workspace
 * (32 MiB on Hopper) with the pool in which ggml converts numbers. Reported for CUDA 12 and 13 on cards of 8 to 80 GB; not
 * run on CUDA here.
 */
export const CUDA_CONTEXT = 0.5e9;
const CUDA_POOL = 0.1e9;
/**
 * hone's own graph on a GPU (native/engine/own_weights.h, own_decoder.cc): its architectures; rows for A behind those of each
 * linear layer in 16 bits, kRooms adapters of kJointRank; sequences of each context besides those that are played.
 */
const OWN = { architectures: ["qwen2", "llama", "qwen3"], rows: 2 * 32, sequences: 2 };

export interface EngineMemory {
  readonly weights: number;
  readonly kv: number;
  /** Computing: llama.cpp's buffers for one pass, and logits. */
  readonly compute: number;
  /** The process itself. */
  readonly process: number;
}

const ceil = (value: number, step: number) => Math.ceil(value / step) * step;

const kvCells = (context: number) => ceil(context, CELL_STEP);

/** What llama.cpp's contexts depend on. */
export type ContextInput = Pick<
  PlanInput,
  "shape" | "concurrency" | "context" | "gpu" | "lanes" | "ubatch" | "sampling" | "decoder"
>;

/** Whether hone's own graph plays on a GPU, if its trial agrees. */
const playsOwn = ({ decoder, gpu, shape }: Pick<PlanInput, "decoder" | "gpu" | "shape">) =>
  decoder === "own" && gpu !== false && OWN.architectures.includes(shape.architecture) && shape.weightType !== "F32";

/** Bytes of the rows in which hone's own graph has an adapter's A. */
function spareRows(input: PlanInput): number {
  const { shape } = input;
  if (!playsOwn(input) || !["F16", "BF16"].includes(shape.weightType)) return 0;
  const linears = adaptedLinears(shape, LINEAR_LAYERS);
  return linears.reduce((total, { inputs, layers }) => total + 2 * OWN.rows * inputs * layers.length, 0);
}

/** Sequences of each context, shared out as by native/engine/lanes.h. */
const shares = ({ concurrency, lanes }: ContextInput): number[] =>
  Array.from({ length: lanes }, (_, lane) => Math.floor(concurrency / lanes) + (lane < concurrency % lanes ? 1 : 0));

/** A convolution's state has no cells. */
const pooled = (input: ContextInput) => {
  const { shape, gpu, concurrency, context, lanes, ubatch } = input;
  return (
    gpu !== false &&
    !playsOwn(input) &&
    shape.convolution === undefined &&
    !shape.longFactors &&
    pooledByDefault({ sequences: concurrency, contextPerSequence: context }, lanes, ubatch)
  );
};

/** Tokens that the KV of a context with so many sequences has room for; in a pool also for a pass of padding. */
const cellsOf = (input: ContextInput, sequences: number) =>
  (sequences + (playsOwn(input) ? OWN.sequences : 0)) * kvCells(input.context) +
  (pooled(input) ? kvCells(input.ubatch) : 0);

/** f32 weights on a CPU have f32 KV, and no flash attention. */
const fullKv = ({ gpu, shape }: ContextInput) => gpu === false && shape.weightType === "F32";

interface ContextMemory {
  readonly kv: number;
  /** Buffers of one pass. */
  readonly compute: number;
  /** The attention mask, and embeddings of a pass: also on the host beside a GPU. */
  readonly mask: number;
  readonly inputs: number;
  /** Rows of logits, and with drawing on the device what else llama.cpp has room for, on the host. */
  readonly outputs: number;
}

/** What convolutions keep of a sequence: the inputs that the next tokens read, in f32. */
const stateOf = ({ embedding, convolution }: PlanInput["shape"]) =>
  convolution === undefined ? 0 : 4 * embedding * convolution.layers.length * (convolution.taps - 1);

/** A llama.cpp context with so many sequences. */
function contextMemory(input: ContextInput, sequences: number): ContextMemory {
  const { shape, gpu } = input;
  const { embedding: d, feedForward, heads, kvHeads, headSize, vocabulary } = shape;
  const pool = pooled(input);
  const cells = cellsOf(input, sequences);
  // Padding has sequences of its own.
  const ids = pool ? 2 * sequences : sequences;
  const width = fullKv(input) ? 4 : 2;
  const tokens = ceil(Math.min(input.ubatch, cells), ids);
  const scored = sequences + SCORE_ROWS;
  const rows = Math.min(tokens, scored);
  // Scores of all heads exist only without flash attention; they are computed in place.
  const scores = fullKv(input) ? 4 * heads * kvCells(input.context) * tokens : 0;
  // In a pool every token has a mask over all cells.
  const mask = width * (pool ? cells : kvCells(input.context)) * tokens;
  const hidden = 4 * tokens * d;
  const attention = scores + 3 * hidden + 4 * tokens * (2 * heads * headSize + 2 * kvHeads * headSize);
  // A CPU computes in the buffer that has the inputs. Wide heads leave a gap that nothing else fits into.
  const gated = 4 * tokens * (3 * feedForward + Math.max((gpu === false ? 4 : 2) * d, 2 * heads * headSize));
  // To draw there are two copies of the logits, one with a row more. Inputs lie beyond the masks, which are free only without.
  const output =
    input.sampling === "device"
      ? 4 * vocabulary * (3 * rows + 1) + 4 * rows * d + mask + hidden
      : 4 * rows * (vocabulary + 2 * d) + 2 * hidden;
  return {
    kv: cells * attendingLayers(shape).length * 2 * kvHeads * headSize * width + sequences * stateOf(shape),
    compute: Math.max(mask + attention, mask + gated, output),
    mask,
    inputs: 2 * hidden,
    // With samplers llama.cpp has room for probabilities, other logits and candidates of each sequence besides its logits.
    outputs: 4 * vocabulary * Math.max(scored, ids * (input.sampling === "device" ? 4 : 1)),
  };
}

/** Of all contexts together. */
export function contextsMemory(input: ContextInput): ContextMemory {
  const all = shares(input).map((sequences) => contextMemory(input, sequences));
  const sum = (part: keyof ContextMemory) => all.reduce((total, one) => total + one[part], 0);
  return {
    kv: sum("kv"),
    compute: sum("compute"),
    mask: sum("mask"),
    inputs: sum("inputs"),
    outputs: sum("outputs"),
  };
}

/**
 * CUDA's sums in 32 bits (src/engine/sums.ts) convert one matrix at a time; the largest is the output layer, or a half of
 * the gated product. Other backends do without, and so do types that are summed as they are. Not run on CUDA.
 */
function convertedMatrix({ gpu, shape }: PlanInput): number {
  if (gpu !== "cuda" || shape.weightType === "BF16" || shape.weightType === "F32") return 0;
  return 4 * shape.embedding * Math.max(shape.vocabulary, shape.feedForward);
}

/** The process with its rollout workers and two tokenizers. */
export const processMemory = ({ vocabulary }: Pick<PlanInput["shape"], "vocabulary">) =>
  PROCESS + WORKERS + PER_VOCABULARY_ENTRY * vocabulary;

/** The engine's parts by place. A GPU's engine maps the embeddings on the host and reads rows of them there. */
export function engineMemory(input: PlanInput): { host: EngineMemory; gpu: EngineMemory | null } {
  const { shape, gpu, lanes } = input;
  const adapters = 2 * 4 * adapterParameters(shape, input.loraRank, input.loraTargets);
  const { kv, compute, mask, inputs, outputs } = contextsMemory(input);
  const process = processMemory(shape);
  if (gpu === false) {
    return { host: { weights: shape.bytes + adapters, kv, compute: compute + outputs, process }, gpu: null };
  }
  const table = (shape.bytes * shape.vocabulary * shape.embedding) / shape.parameters;
  // Tied embeddings are in both places: the GPU has them as its output layer.
  const weights = shape.bytes - (tied(shape) ? 0 : table) + spareRows(input) + adapters;
  // Each context has a pool of its own, and converts there.
  const overhead = gpu === "cuda" ? CUDA_CONTEXT + lanes * CUDA_POOL : 0;
  return {
    host: { weights: table, kv: 0, compute: mask + inputs + outputs, process },
    gpu: { weights, kv, compute: compute + lanes * convertedMatrix(input), process: overhead },
  };
}

/**
 * A judge in the engine's process: a model without adapters or workers, in one context, whose device is the engine's.
 */
export function judgeMemory(input: PlanInput): { host: EngineMemory; gpu: EngineMemory | null } | null {
  const { judge } = input;
  if (!judge) return null;
  const { shape, concurrency } = judge;
  const context = judgeContext(judge);
  const alone = { ...input, shape, concurrency, context, loraTargets: [], lanes: 1, ubatch: UBATCH, sampling: "host" };
  const { host, gpu } = engineMemory(alone as PlanInput);
  return {
    host: { ...host, process: host.process - PROCESS - WORKERS },
    gpu: gpu && { ...gpu, process: gpu.process - (input.gpu === "cuda" ? CUDA_CONTEXT : 0) },
  };
}

/** A frozen base beside the engine of this process: what a context takes, on weights that are there. */
export function baseMemory(input: PlanInput): { host: EngineMemory; gpu: EngineMemory | null } | null {
  const { base, served, gpu } = input;
  if (!base || served) return null;
  const { sequences: concurrency, contextPerSequence: context } = base;
  const alone = { ...input, concurrency, context, lanes: 1, sampling: "host" } as const;
  const { kv, compute, mask, inputs, outputs } = contextsMemory(alone);
  const nothing = { weights: 0, process: 0 };
  if (gpu === false) return { host: { ...nothing, kv, compute: compute + outputs }, gpu: null };
  const pool = gpu === "cuda" ? CUDA_POOL : 0;
  return {
    host: { ...nothing, kv: 0, compute: mask + inputs + outputs },
    gpu: { ...nothing, kv, compute: compute + convertedMatrix(alone) + pool },
  };
}

/** Number of weights in the linear layers between embeddings and output. */
export function linearParameters(shape: PlanInput["shape"]): number {
  const { layers, embedding: d, feedForward, heads, kvHeads, headSize, convolution } = shape;
  const attention = attendingLayers(shape).length * d * headSize * 2 * (heads + kvHeads);
  // An input of three parts, and an output.
  const convolutions = (convolution?.layers.length ?? 0) * 4 * d * d;
  return attention + convolutions + layers * 3 * d * feedForward;
}

/** Whether the output layer is the table of embeddings, so that there is only one of them. */
function tied(shape: PlanInput["shape"]): boolean {
  return shape.parameters - linearParameters(shape) < 1.5 * shape.vocabulary * shape.embedding;
}
