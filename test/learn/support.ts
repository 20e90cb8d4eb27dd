/** Settings for tests of the learner's process. */
import { objectiveOf } from "../../src/config/index.js";
import type { LearnerSettings, StepSettings } from "../../src/learn/index.js";

export function settings(python: string, logFile: string): LearnerSettings {
  return {
    python,
    backend: "peft",
    base: { gguf: "model.gguf" },
    lora: { rank: 4, alpha: 8, targets: ["q_proj", "v_proj", "down_proj"] },
    seed: 1,
    threads: 1,
    device: "cpu",
    precision: "f32",
    logFile,
  };
}

export const step: StepSettings = {
  batch: "batch.safetensors",
  into: "0001",
  objective: objectiveOf("grpo"),
  importance: { mode: "token-truncate", low: 0, high: 2 },
  learningRate: 2e-3,
  klCoefficient: 0,
  maxGradNorm: 1,
  microBatchTokens: 4096,
  gradientCheckpointing: false,
};
