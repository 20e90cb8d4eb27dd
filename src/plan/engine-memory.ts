/**
 * The engine's memory, computed as llama.cpp allocates it: the sizes agree with those that it logs when it loads a model
 * ("KV buffer size", "compute buffer size", "output buffer size"), on a CPU and on Vulkan to within 2 MB.
 */
import { pooledByDefault, SCORE_ROWS, UBATCH } from "../engine/index.js";
import { adapterParameters, type PlanInput } from "./input.js";

/** llama.cpp allocates the KV of each sequence in steps of this many tokens. */
const CELL_STEP = 256;
/**
 * Node with the addon and its rollout workers, without a model; measured, as are the following constants: per entry of the
 * vocabulary, the memory of a model's two tokenizers.
 */
const PROCESS = 0.11e9;
export const WORKERS = 0.11e9;
const PER_VOCABULARY_ENTRY = 400;
/**
 * A process that computes on CUDA: its context with the kernels of ggml, and cuBLAS's workspace (32 MiB on Hopper) with
 * the pool in which ggml converts numbers. Reported for CUDA 12 and 13 on cards of 8 to 80 GB; not run on CUDA here.
 */
export const CUDA_CONTEXT = 0.5e9;
const CUDA_POOL = 0.1e9;

export interface EngineMemory {
  readonly weights: number;
  readonly kv: number;
  /** Computing: llama.cpp's buffers for one pass, and logits. */
  readonly compute: number;
  /** The process itself. */
  readonly process: number;
}

const ceil = (value: number, step: number) => Math.ceil(value / step) * step;

export const kvCells = (context: number) => ceil(context, CELL_STEP);

const pooled = ({ gpu, concurrency, context }: PlanInput) =>
  gpu !== false && pooledByDefault({ sequences: concurrency, contextPerSequence: context });

/** A pool has room for a pass of padding. */
function allCells(input: PlanInput): number {
  return input.concurrency * kvCells(input.context) + (pooled(input) ? kvCells(UBATCH) : 0);
}

/** f32 weights on a CPU have f32 KV, and no flash attention. */
const fullKv = ({ gpu, shape }: PlanInput) => gpu === false && shape.weightType === "F32";

function kvBytes(input: PlanInput): number {
  const { shape } = input;
  const width = fullKv(input) ? 4 : 2;
  return allCells(input) * shape.layers * 2 * shape.kvHeads * shape.headSize * width;
}

/** Per llama.cpp context: compute buffers, the attention mask, and rows of logits. */
function contextBuffers(input: PlanInput, sequences: number) {
  const { shape, context } = input;
  const { embedding: d, feedForward, heads, kvHeads, headSize, vocabulary } = shape;
  const cells = kvCells(context);
  const streams = pooled(input) ? 1 : sequences;
  const tokens = ceil(Math.min(UBATCH, cells * sequences), streams);
  const outputs = sequences + SCORE_ROWS;
  // Scores of all heads exist only without flash attention; they are computed in place.
  const scores = fullKv(input) ? 4 * heads * cells * tokens : 0;
  // In a pool every token has a mask over all cells.
  const mask = (fullKv(input) ? 4 : 2) * (pooled(input) ? allCells(input) : cells) * tokens;
  const attention = scores + 4 * tokens * (3 * d + 2 * heads * headSize + 2 * kvHeads * headSize);
  const gated = 4 * tokens * (3 * feedForward + 2 * d);
  // The masks are freed by then.
  const output = 4 * outputs * (vocabulary + 2 * d) + 8 * tokens * d;
  return {
    compute: Math.max(mask + attention, mask + gated, output),
    mask,
    inputs: 8 * tokens * d,
    logits: 4 * outputs * vocabulary,
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

/** The engine's parts by place. A GPU's engine maps the embeddings on the host and reads rows of them there. */
export function engineMemory(input: PlanInput): { host: EngineMemory; gpu: EngineMemory | null } {
  const { shape, concurrency, gpu, lanes } = input;
  const adapters = 2 * 4 * adapterParameters(shape, input.loraRank, input.loraTargets);
  const buffers = contextBuffers(input, Math.ceil(concurrency / lanes));
  const process = PROCESS + WORKERS + PER_VOCABULARY_ENTRY * shape.vocabulary;
  const kv = kvBytes(input);
  if (gpu === false) {
    const compute = lanes * (buffers.compute + buffers.logits);
    return { host: { weights: shape.bytes + adapters, kv, compute, process }, gpu: null };
  }
  const table = (shape.bytes * shape.vocabulary * shape.embedding) / shape.parameters;
  // Tied embeddings are in both places: the GPU has them as its output layer.
  const weights = shape.bytes - (tied(shape) ? 0 : table) + adapters;
  const overhead = gpu === "cuda" ? CUDA_CONTEXT + CUDA_POOL : 0;
  return {
    host: { weights: table, kv: 0, compute: buffers.mask + buffers.inputs + buffers.logits, process },
    gpu: { weights, kv, compute: buffers.compute + convertedMatrix(input), process: overhead },
  };
}

/** Number of weights in the linear layers between embeddings and output. */
export function linearParameters({
  layers,
  embedding: d,
  feedForward,
  heads,
  kvHeads,
  headSize,
}: PlanInput["shape"]): number {
  return layers * d * headSize * 2 * (heads + kvHeads) + layers * 3 * d * feedForward;
}

/** Whether the output layer is the table of embeddings, so that there is only one of them. */
function tied(shape: PlanInput["shape"]): boolean {
  return shape.parameters - linearParameters(shape) < 1.5 * shape.vocabulary * shape.embedding;
}
