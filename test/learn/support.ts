/** Settings for tests of the learner's process. */
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
  loss: "grpo",
  learningRate: 2e-3,
  clipLow: 0.2,
  clipHigh: 0.28,
  klCoefficient: 0,
  mismatchClip: 2,
  maxGradNorm: 1,
  microBatchTokens: 4096,
  gradientCheckpointing: false,
};
