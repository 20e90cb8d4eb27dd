/**
 * Defaults of training that depend on the model's size, and presets. options.ts shows them in `--help` and in
 * docs/options.md; src/train/settings.ts takes them.
 */

export type Size = "tiny" | "small" | "large";

/** The model that comes with hone. */
export const DEFAULT_MODEL = "tiny";

/** Default tokens of a conversation, if the model supports as many. */
export const CONTEXT = 8192;

/** Default tokens of one call of llama.cpp: a pass over the weights evaluates all of them or a part. */
export const BATCH = 2048;

/** Default number of concurrent rollouts; outside training that of a CPU. */
export const ROLLOUTS_AT_ONCE = { cpu: 16, gpu: 64 } as const;

/** Upper bound of each size, in parameters. */
const BELOW = { tiny: 1e8, small: 2e9, large: Number.POSITIVE_INFINITY } as const;

export function sizeOf(parameters: number): Size {
  return parameters < BELOW.tiny ? "tiny" : parameters < BELOW.small ? "small" : "large";
}

/** Defaults of training. Names are those of the options; the last ones are not options. */
export interface TrainingDefaults {
  readonly steps: number;
  readonly groupsPerStep: number;
  readonly groupSize: number;
  readonly learningRate: number;
  readonly finalLearningRate: number;
  readonly warmup: number;
  readonly loraRank: number;
  readonly loraAlpha: number;
  readonly maxGradNorm: number;
  readonly maxTokens: number;
  readonly validateEvery: number;
  readonly validateN: number;
  readonly microBatchTokens: number;
  /** AdamW's. */
  readonly betas: readonly [number, number];
  readonly weightDecay: number;
  /** Added to a group's standard deviation before its rewards are divided by it. */
  readonly stdFloor: number;
}

// ART's settings for models of 0.5 and 3 billion parameters, with larger groups.
const small: TrainingDefaults = {
  steps: 50,
  groupsPerStep: 8,
  groupSize: 8,
  learningRate: 1e-5,
  finalLearningRate: 1e-5,
  warmup: 3,
  loraRank: 8,
  loraAlpha: 16,
  maxGradNorm: 0.1,
  maxTokens: 2048,
  validateEvery: 10,
  validateN: 50,
  microBatchTokens: 4096,
  betas: [0.9, 0.99],
  weightDecay: 0.1,
  stdFloor: 0.1,
};

export const bySize: Readonly<Record<Size, TrainingDefaults>> = {
  // Shown to lift a model of 4 million parameters within 20 steps; see models/tiny.
  tiny: {
    steps: 30,
    groupsPerStep: 8,
    groupSize: 8,
    learningRate: 2e-3,
    finalLearningRate: 5e-4,
    warmup: 3,
    loraRank: 16,
    loraAlpha: 32,
    maxGradNorm: 1,
    maxTokens: 256,
    validateEvery: 10,
    validateN: 100,
    microBatchTokens: 4096,
    betas: [0.9, 0.95],
    weightDecay: 0,
    stdFloor: 0.1,
  },
  small,
  large: { ...small, learningRate: 5e-6, finalLearningRate: 5e-6 },
};

export interface Preset extends Partial<TrainingDefaults> {
  readonly clipLow?: number;
  readonly clipHigh?: number;
  readonly kl?: number;
  readonly temperature?: number;
  readonly maxTurns?: number;
  readonly onToolError?: "observe" | "stop";
  readonly reward?: string;
  readonly accuracy?: "task" | "judge";
  /** Passes over the train split; they give `steps`. Not the option `epochs`, which counts passes over a step's batch. */
  readonly passes?: number;
}

export const presetNames = ["art-e", "art-notebook"] as const;

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
  betas: [0.9, 0.99],
  weightDecay: 0.1,
  stdFloor: 1e-6,
};

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

/** For people: "0.003 below 0.1 billion parameters, 1e-5 below 2 billion, 5e-6 above". One value when all are equal. */
export function bySizeText(name: keyof TrainingDefaults): string {
  const show = (value: unknown) => (typeof value === "number" && value < 1e-3 ? value.toExponential() : String(value));
  const [tiny, small, large] = [bySize.tiny, bySize.small, bySize.large].map((values) => show(values[name]));
  if (tiny === small && small === large) return tiny as string;
  if (small === large) return `${tiny} below ${BELOW.tiny / 1e9} billion parameters, ${small} above`;
  return `${tiny} below ${BELOW.tiny / 1e9} billion parameters, ${small} below ${BELOW.small / 1e9} billion, ${large} above`;
}
