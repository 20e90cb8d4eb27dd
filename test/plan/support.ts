/** A run whose memory is planned. */
import { inputOf } from "../../bench/planned-memory.js";
import type { ModelShape } from "../../src/engine/models.js";
import type { JudgeLoad, PlanInput } from "../../src/machine/plan/input.js";

export const LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];

/** Qwen2.5-0.5B in f16. */
export const qwen: ModelShape = {
  architecture: "qwen2",
  bytes: 988e6,
  parameters: 494e6,
  weightType: "F16",
  layers: 24,
  embedding: 896,
  feedForward: 4864,
  heads: 14,
  kvHeads: 2,
  headSize: 64,
  vocabulary: 151_936,
  trainedContext: 32_768,
};

export const input: PlanInput = { ...inputOf(qwen), concurrency: 16, loraTargets: LINEAR, microBatchTokens: 4096 };

/** A judge of the same shape that hone runs beside the engine. */
export const judge: JudgeLoad = { shape: qwen, concurrency: 8, inputTokens: 32_000, besides: 3648 };
