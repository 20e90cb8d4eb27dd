/** Settings of known experiments, by the names that --preset takes. */
import type { Config } from "../core/config/config.js";

/** Options of a known experiment. */
export interface Preset extends Partial<Config> {
  /** Passes over the train split; they give `steps`. */
  readonly passes?: number;
}

// Common to OpenPipe's email agents.
const art: Preset = {
  groupSize: 4,
  warmup: 0,
  loraRank: 8,
  loraAlpha: 16,
  clipLow: 0.2,
  clipHigh: 0.2,
  kl: 0,
  temperature: 1,
  maxTurns: 10,
  maxTokens: 2048,
  onToolError: "stop",
  accuracy: "judge",
  maxGradNorm: 0.1,
  stdFloor: 1e-6,
};

export const presetNames = ["art-e", "art-notebook"] as const;

export const presets: Readonly<Record<(typeof presetNames)[number], Preset>> = {
  // ART-E: 12 groups of 4, three passes over its questions, its graded reward.
  "art-e": {
    ...art,
    passes: 3,
    groupsPerStep: 12,
    learningRate: 1.2e-5,
    finalLearningRate: 1.2e-5,
    reward: "shaped",
    validateEvery: 30,
    validateN: 100,
  },
  // ART's notebook of the same agent: 20 steps of 2 groups of 4, scored by RULER alone.
  "art-notebook": {
    ...art,
    steps: 20,
    groupsPerStep: 2,
    learningRate: 1e-5,
    finalLearningRate: 1e-5,
    reward: "ruler",
  },
};
