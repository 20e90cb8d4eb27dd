/** Input of a memory plan. */
import { type LocalEngineInfo, lanesFor, type ModelShape } from "../engine/index.js";
import type { Precision } from "../learn/index.js";

export interface PlanInput {
  readonly shape: ModelShape;
  /** Sequences with KV of their own. */
  readonly concurrency: number;
  readonly context: number;
  readonly loraRank: number;
  readonly loraTargets: readonly string[];
  readonly microBatchTokens: number;
  readonly gradientCheckpointing: boolean;
  /** offload: the learner's weights and optimizer are in the host's memory between updates, if it computes on a GPU. */
  readonly learnerLifetime: "run" | "step" | "offload";
  readonly releaseWeights: boolean;
  /** The engine's device; the learner shares it if it is CUDA, and computes on the CPU otherwise. */
  readonly gpu: LocalEngineInfo["gpu"];
  readonly precision: "auto" | Precision;
  /** The learner's weights come from a Hugging Face folder, which is read in f32 into the host's memory. */
  readonly hfWeights: boolean;
  /** Number of llama.cpp contexts. */
  readonly lanes: number;
  /** Somebody asked for this number of lanes: it stays when the number of sequences changes. */
  readonly lanesGiven: boolean;
  /** Tokens of a pass over the weights at most. */
  readonly ubatch: number;
  /** Where tokens are drawn. */
  readonly sampling: "host" | "device";
  /** The judge that hone runs beside the engine; null without one. */
  readonly judge: JudgeLoad | null;
}

export interface JudgeLoad {
  readonly shape: ModelShape;
  /** Sequences with KV of their own. */
  readonly concurrency: number;
  /** Tokens of a question, and of the rest of a conversation. */
  readonly inputTokens: number;
  readonly besides: number;
}

/** Tokens of one of its sequences. */
export const judgeContext = ({ inputTokens, besides }: JudgeLoad): number => inputTokens + besides;

/** Fewest sequences with these lanes: one each, where their number stays. */
export const fewestSequences = ({ lanes, lanesGiven }: PlanInput): number => (lanesGiven ? lanes : 1);

/** The change to another number of sequences. */
export function concurrencyOf(
  { lanes, lanesGiven }: PlanInput,
  concurrency: number,
): Pick<PlanInput, "concurrency"> & Partial<Pick<PlanInput, "lanes">> {
  return lanesGiven ? { concurrency } : { concurrency, lanes: lanesFor(lanes, concurrency) };
}

/** Number of weights of an adapter: rank × (inputs + outputs) for every layer it is on. */
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
