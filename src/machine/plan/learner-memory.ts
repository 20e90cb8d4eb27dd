/**
 * The learner's memory: its process, the weights as it holds them (native/learner/backend.py), adapter and optimizer, and a
 * pass.
 */
import { KEPT_WEIGHTS, type Precision } from "../../core/learn/types.js";
import { activations, kept, type PassSettings, type RowLayout } from "./activations.js";
import { CUDA_CONTEXT, linearParameters } from "./engine-memory.js";
import { adapterParameters, learnsOnCuda, type PlanInput } from "./input.js";

/**
 * From native/learner/head.py: logits of one chunk, of which two buffers exist, on a CPU and on CUDA. A test compares the
 * constants.
 */
export const CHUNK_BYTES = { cpu: 64 * 2 ** 20, cuda: 192 * 2 ** 20 };
const LEAST_CHUNK_ROWS = 16;

/** Weights of a matrix whose values are computed at once, from native/learner/quantised.py. */
export const VALUES_PIECE = { cpu: 2 ** 17, cuda: 2 ** 26 };
/** Bytes for each of them on the way from blocks to values, op by op: two integers of a byte and two numbers of f32. */
const MAKING = 10;

/** Python with PyTorch, transformers and PEFT, measured with PyTorch 2.13. */
const PYTHON = 0.46e9;
/** The same with CUDA's libraries and the pinned buffers of copies, on the host. An assumption: not run on CUDA. */
const PYTHON_CUDA = 2e9;
/** PyTorch's code and buffers that the first pass on a CPU loads. Measured. */
const FIRST_PASS = 0.05e9;
/** Overhead of PyTorch's caching allocator on CUDA, which rounds large blocks up to 2 MiB. Not run on CUDA. */
const CUDA_HOLES = 1.1;
/** cuBLAS's and cuBLASLt's workspaces, 32 MiB each on Hopper (PyTorch's CublasHandlePool.cpp), less on other cards. */
const CUBLAS = 64 * 2 ** 20;

/**
 * Numbers per weight of an adapter, in f32: weight and Adam's two moments; in an update gradients and a copy of all three.
 */
const ADAPTER = { idle: 12, updating: 28 };

/** Assumed content of a row: one question with this many rollouts. `prompt` is its share of the row. */
interface Filling {
  readonly prompt: number;
  readonly completions: number;
}

/** Rollouts that share less have fewer copies of keys and values, but larger masks. */
export const LONG_ANSWERS: Filling = { prompt: 1 / 4, completions: 4 };
/** Short answers to a long prompt, whose keys and values each of them copies: more memory where these are wide. */
const SHORT_ANSWERS: Filling = { prompt: 1 / 2, completions: 9 };

export function typicalRow(tokens: number, filling = LONG_ANSWERS): RowLayout {
  const prompt = Math.floor(tokens * filling.prompt);
  const { completions } = filling;
  return { prompt, completions: Array<number>(completions).fill(Math.floor((tokens - prompt) / completions)) };
}

/** A row of this many tokens: trees with this content, in which no conversation is longer than the context. */
function rowsOf(tokens: number, context: number, filling: Filling): RowLayout[] {
  const conversation = filling.prompt + (1 - filling.prompt) / filling.completions;
  const trees = Math.max(1, Math.ceil((tokens * conversation) / context));
  return Array.from({ length: trees }, () => typicalRow(tokens / trees, filling));
}

/**
 * Bytes of tensors in a pass: those kept from forward to backward, and the peak of the others beside them.
 *
 * @param device of the pass. On CUDA the output layer multiplies in 16 bits, if the precision has so many
 */
export function passOf(
  settings: PassSettings,
  rows: readonly RowLayout[],
  sampled: number,
  gradientCheckpointing: boolean,
  device: keyof typeof CHUNK_BYTES = "cpu",
): { keeping: number; beside: number } {
  const { layers, vocabulary, embedding } = settings.shape;
  const one = activations(settings, rows);
  // Gradient checkpointing computes a layer again before its gradients.
  const backward = one.gradients + (gradientCheckpointing ? one.layer : 0);
  const chunk = Math.max(LEAST_CHUNK_ROWS, Math.min(sampled, Math.floor(CHUNK_BYTES[device] / (4 * vocabulary))));
  // native/learner/head.py: a copy of the output layer, and one buffer more.
  const halves = device === "cuda" && settings.precision !== "f32" ? 2 * vocabulary * (embedding + chunk) : 0;
  const scoring = 8 * chunk * vocabulary + 8 * embedding * sampled + halves;
  const values = settings.blocks ? valuesOf(settings, device) : { product: 0, output: 0 };
  const beside = Math.max(backward + values.product, scoring + values.output);
  return { keeping: kept(one, layers, gradientCheckpointing), beside };
}

/** Bytes of the values that are computed from blocks: for the largest product of a layer, and for the output layer. */
function valuesOf({ shape, precision }: PassSettings, device: keyof typeof VALUES_PIECE) {
  const { embedding, feedForward, vocabulary } = shape;
  // On CUDA gate and up are one product (native/learner/fused.py).
  const largest = (device === "cuda" ? 2 : 1) * feedForward * embedding;
  const making = (weights: number) => MAKING * Math.min(weights, VALUES_PIECE[device]);
  const table = vocabulary * embedding;
  return {
    product: (precision === "f32" ? 4 : 2) * largest + making(feedForward * embedding),
    output: 4 * table + making(table),
  };
}

export interface LearnerMemory {
  readonly process: number;
  readonly weights: number;
  /** Adapter and optimizer, between updates. */
  readonly adapter: number;
  /** A pass, and the other memory of an update. */
  readonly pass: number;
  /** For the longest row. */
  readonly tokens: number;
}

/** As choose_precision in native/learner/backend.py, which has f16 for bf16 on GPUs without bf16: the same bytes. */
const learnerPrecision = (input: PlanInput): Precision => {
  if (input.precision !== "auto") return input.precision;
  return !learnsOnCuda(input) ? "f32" : input.shape.weightType === "F16" ? "f16" : "bf16";
};

/** Whether the learner keeps the file's blocks, as chosen() of native/learner/choice.py and load_base() of model.py do. */
const keepsBlocks = ({ shape, hfWeights, learner }: PlanInput): boolean =>
  KEPT_WEIGHTS.includes(shape.weightType) && !hfWeights && learner !== "unsloth";

/**
 * Memory on the learner's device.
 *
 * @param fillings possible contents of a row, of which the largest is planned for
 */
export function learnerMemory(
  input: PlanInput,
  fillings: readonly Filling[] = [LONG_ANSWERS, SHORT_ANSWERS],
): LearnerMemory {
  const { shape, loraRank, loraTargets, microBatchTokens, gradientCheckpointing } = input;
  const cuda = learnsOnCuda(input);
  const precision = learnerPrecision(input);
  const numbers = adapterParameters(shape, loraRank, loraTargets);
  const linear = linearParameters(shape);
  const blocks = keepsBlocks(input);
  const weights = blocks ? shape.bytes : 4 * shape.parameters - (precision === "f32" ? 0 : 2 * linear);

  const settings = { shape, loraRank, loraTargets, precision, blocks };
  const tensorsOf = (rows: readonly RowLayout[], sampled: number) => {
    const { keeping, beside } = passOf(settings, rows, sampled, gradientCheckpointing, cuda ? "cuda" : "cpu");
    return keeping + beside;
  };
  const passes = fillings.map((filling) =>
    tensorsOf(rowsOf(microBatchTokens, input.context, filling), microBatchTokens * (1 - filling.prompt)),
  );
  // A conversation longer than a micro-batch has a row of its own (native/learner/packing.py).
  const tensors = Math.max(...passes, tensorsOf([{ prompt: 0, completions: [input.context] }], input.context));
  const adapterUpdate = (ADAPTER.updating - ADAPTER.idle) * numbers;
  const activationsOnly = cuda ? CUDA_HOLES * tensors : tensors + FIRST_PASS;
  return {
    process: cuda ? CUDA_CONTEXT + CUBLAS : PYTHON,
    weights,
    adapter: ADAPTER.idle * numbers,
    pass: activationsOnly + adapterUpdate,
    tokens: Math.max(microBatchTokens, input.context),
  };
}

/** Memory on the host, where the learner computes on a GPU. */
export function learnerHost({ shape, hfWeights }: PlanInput): { process: number; loading: number } {
  // The largest tensor in f32 on its way to the GPU; all of them when they come from a folder.
  const loading = 4 * (hfWeights ? shape.parameters : shape.vocabulary * shape.embedding);
  return { process: PYTHON_CUDA, loading };
}
