/**
 * The memory plan: what a run will need at its fullest, computed before anything is loaded, against what the machine has.
 * On a CPU engine and learner share the main memory; on a GPU its own. Figures are estimates in bytes, meant to be right
 * within a quarter; what was really used is in each step's metrics.
 */
import type { ModelShape } from "../engine/index.js";

export interface PlanInput {
  readonly shape: ModelShape;
  /** Sequences with KV of their own. */
  readonly concurrency: number;
  readonly context: number;
  readonly loraRank: number;
  readonly loraTargets: readonly string[];
  readonly microBatchTokens: number;
  readonly gradientCheckpointing: boolean;
  readonly learnerLifetime: "run" | "step" | "offload";
  readonly releaseWeights: boolean;
  readonly gpu: boolean;
}

export interface PlanRow {
  readonly name: string;
  readonly bytes: number;
}

export interface Plan {
  /** Needed together while rollouts are played. */
  readonly playing: readonly PlanRow[];
  /** Needed together while the learner works. */
  readonly learning: readonly PlanRow[];
  /** The larger of the two sums. */
  readonly peak: number;
}

/** Tokens llama.cpp evaluates in one pass at most. */
const UBATCH = 512;
/** Python with PyTorch loaded, before any model. */
const PYTHON = { cpu: 0.45e9, gpu: 0.8e9 };
/**
 * What a pass takes on a CPU, over the numbers it keeps: glibc's malloc leaves holes between them. And what the first
 * pass brings in once, mostly PyTorch's own code. Measured with models of 4 million and half a billion parameters.
 */
const HOLES = 1.5;
const FIRST_PASS = 0.35e9;
/** Positions whose logits the learner holds at once, and copies of them that forward and backward need. */
const LOGIT_ROWS = 1024;
const LOGIT_COPIES = 3;

const sum = (rows: readonly PlanRow[]) => rows.reduce((total, { bytes }) => total + bytes, 0);

/** Numbers an adapter has: rank × (inputs + outputs) for every layer it is on. */
export function adapterParameters(shape: ModelShape, rank: number, targets: readonly string[]): number {
  const { embedding: d, feedForward: ff, heads, kvHeads, headSize } = shape;
  const ends: Record<string, number> = {
    q_proj: d + heads * headSize,
    k_proj: d + kvHeads * headSize,
    v_proj: d + kvHeads * headSize,
    o_proj: heads * headSize + d,
    gate_proj: d + ff,
    up_proj: d + ff,
    down_proj: ff + d,
  };
  return shape.layers * rank * targets.reduce((total, name) => total + (ends[name] ?? 0), 0);
}

/** What one token leaves for the backward pass, in numbers: of one layer, and between two layers. */
function activations({ embedding: d, feedForward: ff, heads, kvHeads, headSize }: ModelShape) {
  // Inputs of the norms and of every linear layer, attention's q, k, v and output, and the three of the gated product.
  return { layer: 6 * d + 2 * heads * headSize + 2 * kvHeads * headSize + 4 * ff, between: d };
}

export function planMemory(input: PlanInput): Plan {
  const { shape, context, gpu } = input;
  const { layers, kvHeads, headSize, vocabulary, embedding, feedForward } = shape;
  const width = gpu ? 2 : 4;
  const kvWidth = !gpu && shape.weightType === "F32" ? 4 : 2;
  const kv = input.concurrency * context * layers * 2 * kvHeads * headSize * kvWidth;
  const compute = 4 * UBATCH * (2 * feedForward + 6 * embedding) + 4 * (input.concurrency + 64) * vocabulary;
  const learnerIdle = (gpu ? PYTHON.gpu : PYTHON.cpu) + width * shape.parameters;
  const adapter = 16 * adapterParameters(shape, input.loraRank, input.loraTargets);

  // A conversation longer than a micro-batch is one of its own; few are as long as the context.
  const { layer, between } = activations(shape);
  const kept = input.gradientCheckpointing ? layers * between + layer : layers * layer;
  const logits = LOGIT_COPIES * Math.min(LOGIT_ROWS, input.microBatchTokens) * vocabulary * 4;
  const keeping = width * input.microBatchTokens * kept;
  const passes = (gpu ? keeping : HOLES * keeping + FIRST_PASS) + logits;

  const engine: PlanRow[] = [{ name: "engine: weights", bytes: shape.bytes }];
  const learner: PlanRow[] = [
    { name: "learner: weights and Python", bytes: learnerIdle },
    { name: "learner: adapter and optimizer", bytes: adapter },
  ];
  const playing = [
    ...engine,
    { name: `engine: KV of ${input.concurrency} × ${context} tokens`, bytes: kv },
    { name: "engine: computing", bytes: compute },
    ...(input.learnerLifetime === "run" ? learner : []),
  ];
  const learning = [
    ...(input.releaseWeights ? [] : engine),
    ...learner,
    { name: `learner: a pass of ${input.microBatchTokens} tokens`, bytes: passes },
  ];
  return { playing, learning, peak: Math.max(sum(playing), sum(learning)) };
}

/** A change that would help, as it is written on the command line. */
interface Remedy {
  readonly flag: string;
  readonly input: PlanInput;
}

function remedies(input: PlanInput): Remedy[] {
  const concurrency = Math.max(1, Math.floor(input.concurrency / 2));
  const microBatchTokens = Math.max(512, Math.floor(input.microBatchTokens / 2));
  const all: Remedy[] = [
    { flag: "--gradient-checkpointing", input: { ...input, gradientCheckpointing: true } },
    { flag: `--micro-batch-tokens ${microBatchTokens}`, input: { ...input, microBatchTokens } },
    { flag: "--learner-lifetime step", input: { ...input, learnerLifetime: "step" } },
    { flag: "--release-weights", input: { ...input, releaseWeights: true } },
    { flag: `--concurrency ${concurrency}`, input: { ...input, concurrency } },
    { flag: `--context ${input.context / 2}`, input: { ...input, context: Math.floor(input.context / 2) } },
  ];
  return all;
}

/**
 * Flags that bring the plan within `bytes`, the gentlest first; undefined when none of them do, even together.
 * The flags of one kind replace each other: only its last value is given.
 */
export function waysToFit(input: PlanInput, bytes: number): string[] | undefined {
  const flags = new Map<string, string>();
  let now = input;
  while (planMemory(now).peak > bytes) {
    const before = planMemory(now).peak;
    const better = remedies(now).find((remedy) => planMemory(remedy.input).peak < 0.98 * before);
    if (!better) return undefined;
    flags.set(better.flag.split(" ")[0] as string, better.flag);
    now = better.input;
  }
  return [...flags.values()];
}

export const planRows = (plan: Plan): readonly PlanRow[] =>
  sum(plan.playing) >= sum(plan.learning) ? plan.playing : plan.learning;
