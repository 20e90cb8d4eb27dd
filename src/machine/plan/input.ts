/** Input of a memory plan. */

import type { LocalEngineInfo } from "../../core/engine/engine.js";
import type { Precision } from "../../core/learn/types.js";
import { lanesFor } from "../../engine/contexts.js";
import { attendingLayers, type ModelShape } from "../../engine/models.js";
import { adaptedLinears } from "../linears.js";

/** Memory of one use. */
export interface PlanRow {
  readonly name: string;
  readonly bytes: number;
}

/** What an engine uses while it plays, and while the learner computes. */
export interface Rows {
  readonly playing: readonly PlanRow[];
  readonly sleeping: readonly PlanRow[];
}

/** vLLM servers in place of an engine of this process. */
export interface Served {
  /** The server that hone starts on this machine; null where somebody else runs them, elsewhere or on memory of their own. */
  readonly own: {
    /** While the learner computes it keeps its memory, gives back that of the GPU, or is stopped. */
    readonly rests: "stays" | "sleeps" | "stops";
    /** Bytes of the GPU that it takes. */
    readonly gpu: number;
  } | null;
}

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
  /** The engine's device. */
  readonly gpu: LocalEngineInfo["gpu"];
  /** The learner shares the engine's device if that is CUDA, and computes on the CPU otherwise; or it is on another one. */
  readonly learnerOn?: "engine's" | "own card" | "cpu";
  /** The engine keeps its memory while the learner computes. */
  readonly awake?: boolean;
  readonly precision: "auto" | Precision;
  /** The learner's weights come from a Hugging Face folder, which is read in f32 into the host's memory. */
  readonly hfWeights: boolean;
  /** Library that computes the updates: Unsloth holds quantised weights in 16 bits. */
  readonly learner: "auto" | "peft" | "unsloth";
  /** Number of llama.cpp contexts. */
  readonly lanes: number;
  /** Tokens of a pass over the weights at most. */
  readonly ubatch: number;
  /** Where tokens are drawn. */
  readonly sampling: "host" | "device";
  /** Whose graph is asked for; llama.cpp's by default. */
  readonly decoder?: "llama" | "own" | undefined;
  /** Undefined: the engine is in this process. */
  readonly served?: Served | undefined;
  /** The frozen base that an agent has beside the model; undefined without one. */
  readonly base?: BaseLoad | undefined;
  /** The judge that hone runs beside the engine; null without one. */
  readonly judge: JudgeLoad | null;
}

/** A context on the engine's own weights, while rollouts are played. */
export interface BaseLoad {
  /** Sequences with KV of their own. */
  readonly sequences: number;
  readonly contextPerSequence: number;
}

export interface JudgeLoad {
  readonly shape: ModelShape;
  /** Sequences with KV of their own. */
  readonly concurrency: number;
  /** Tokens of a question, and of the rest of a conversation. */
  readonly inputTokens: number;
  readonly besides: number;
}

/** Whether the learner computes on a card. */
export const learnsOnCuda = ({ gpu, learnerOn }: Pick<PlanInput, "gpu" | "learnerOn">): boolean =>
  gpu === "cuda" && learnerOn !== "cpu";

/** Tokens of one of its sequences. */
export const judgeContext = ({ inputTokens, besides }: JudgeLoad): number => inputTokens + besides;

/** The change to another number of sequences. */
export const concurrencyOf = (
  { lanes, gpu }: PlanInput,
  concurrency: number,
): Pick<PlanInput, "concurrency" | "lanes"> => ({
  concurrency,
  lanes: lanesFor(lanes, concurrency, gpu),
});

/** Number of weights of an adapter: rank × (inputs + outputs) for every layer it is on. */
export const adapterParameters = (shape: ModelShape, rank: number, targets: readonly string[]): number =>
  adaptedLinears(shape, targets).reduce(
    (total, { inputs, outputs, layers }) => total + layers.length * rank * (inputs + outputs),
    0,
  );

const GIB = 2 ** 30;

/** KV of a vLLM server on a CPU, in f32 and whole GiB, as it is told. */
export function kvBytesOfServer({
  shape,
  concurrency,
  context,
}: Pick<PlanInput, "shape" | "concurrency" | "context">): number {
  const token = 4 * 2 * attendingLayers(shape).length * shape.kvHeads * shape.headSize;
  return GIB * Math.ceil((token * concurrency * (context + 1)) / GIB);
}
