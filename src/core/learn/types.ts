/** Types of the learner's input and output. Settings are sent to Python under these names. */
import { z } from "zod";
import type { ImportanceMode, Objective } from "./objectives.js";
import type { Progress } from "./protocol.js";

/** Precisions that the learner can compute in. */
export const PRECISIONS = ["f32", "f16", "bf16"] as const;
export type Precision = (typeof PRECISIONS)[number];
/** Of an adapter as an engine plays it: both factors, or A alone and B in f32. */
export const ADAPTER_TYPES = ["f32", "f16", "bf16", "f16-a", "bf16-a"] as const;

/** The model to train. */
export interface BaseModel {
  /** The file the engine runs: a model of one of the architectures of architectures.ts, quantised or not. */
  readonly gguf: string;
  /** A Hugging Face folder to take the weights from; it is checked to be the same model. */
  readonly hf?: string;
}

/** Weight types that the learner computes with or dequantises, by llama.cpp's names: those of the gguf package. */
export const READABLE_WEIGHTS: readonly string[] = [
  "F32",
  "F16",
  "BF16",
  "Q8_0",
  "Q4_0",
  "Q4_1",
  "Q5_0",
  "Q5_1",
  "Q2_K",
  "Q3_K",
  "Q4_K",
  "Q5_K",
  "Q6_K",
  "IQ1_S",
  "IQ1_M",
  "IQ2_XXS",
  "IQ2_XS",
  "IQ2_S",
  "IQ3_XXS",
  "IQ3_S",
  "IQ4_NL",
  "IQ4_XS",
  "TQ1_0",
  "TQ2_0",
  "MXFP4",
  "NVFP4",
];

/** Quantised types whose blocks the learner keeps, and computes values from as it needs them (native/learner/block_types.py). */
export const KEPT_WEIGHTS: readonly string[] = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q4_K", "Q5_K", "Q6_K"];

/** Tensors of a model file that the learner knows, by llama.cpp's names. Those of a layer follow the layer's number. */
export const KNOWN_TENSORS: { readonly model: readonly string[]; readonly layer: readonly string[] } = {
  model: [
    "token_embd.weight",
    "output_norm.weight",
    "token_embd_norm.weight",
    "output.weight",
    "rope_freqs.weight",
    "rope_factors_long.weight",
    "rope_factors_short.weight",
  ],
  layer: [
    "attn_norm",
    "attn_q",
    "attn_k",
    "attn_v",
    "attn_qkv",
    "attn_q_norm",
    "attn_k_norm",
    "attn_output",
    "ffn_norm",
    "ffn_gate",
    "ffn_up",
    "ffn_down",
    "post_attention_norm",
    "post_ffw_norm",
    "shortconv.in_proj",
    "shortconv.conv",
    "shortconv.out_proj",
  ],
};

/** Layers that an adapter can be put on, by their Hugging Face names. */
export const LINEAR_LAYERS: readonly string[] = [
  "q_proj",
  "k_proj",
  "v_proj",
  "o_proj",
  "gate_proj",
  "up_proj",
  "down_proj",
];

export interface LoraSettings {
  readonly rank: number;
  /** The adapter's output is scaled by alpha / rank. */
  readonly alpha: number;
  /** Those of {@link LINEAR_LAYERS} that get an adapter. */
  readonly targets: readonly string[];
}

export interface LearnerSettings {
  /** Python interpreter that has the learner's packages. */
  readonly python: string;
  /** auto is peft; native/learner/choice.py says why. */
  readonly backend: "peft" | "unsloth" | "auto";
  readonly base: BaseModel;
  /** null trains all weights: supervised learning of small models only. */
  readonly lora: LoraSettings | null;
  /** Seed of the adapter's initial weights, and of the order of supervised learning. */
  readonly seed: number;
  /**
   * Checkpoint folder to continue from: adapter, optimizer and random state. Without it a new adapter starts. The first
   * `step` after supervised learning (and the first `sft` after steps) keeps the adapter alone: optimizer and random
   * state are then those of a new adapter.
   */
  readonly resume?: string;
  readonly optimizer?: {
    readonly betas?: readonly [number, number];
    readonly weightDecay?: number;
  };
  /** CPU threads. */
  readonly threads: number;
  /** Used or refused: the learner never computes on another device. */
  readonly device: "cpu" | "cuda";
  /**
   * Precision of matrix products. auto: f32 on a CPU, bf16 where it has such products (cpu_bf16.py); on a GPU f16 for f16
   * weights or where it has no bf16, else bf16.
   * Adapters are always f32.
   */
  readonly precision: "auto" | Precision;
  /**
   * Where the model is between updates. "run" (default): on the computing device. "step" and "offload": in main memory,
   * from the start; it moves to the device when an update begins. "offload" is refused where that is the CPU.
   */
  readonly lifetime?: LearnerLifetime;
  /**
   * Command that starts several processes, the ranks, which compute updates together; native/learner/launch.py adds the
   * learner to it. Refused where it cannot be run or sets no RANK and WORLD_SIZE.
   */
  readonly launch?: string;
  /** The GPUs that it sees, as CUDA_VISIBLE_DEVICES, in place of the one of this process. */
  readonly cards?: string | undefined;
  /** The engine's ggml base library, which on a CPU computes the values of quantised weights; undefined where it is not installed. */
  readonly ggml: string | undefined;
  /** The child's output is appended here. */
  readonly logFile: string;
  readonly deadlines?: Partial<Deadlines>;
}

/** Lifetime of a learner, or of its model on the GPU: the run, or one update. */
export type LearnerLifetime = "run" | "step" | "offload";

/** Seconds without a sign of life after which a learner is ended. */
export interface Deadlines {
  /** From the start of the process to its first message. */
  readonly start: number;
  /** Between two heartbeats of its interpreter. */
  readonly beat: number;
  /** Between two progress messages of a request. */
  readonly progress: number;
}

export type OnProgress = (progress: Progress) => void;

export interface StepSettings {
  /** File of {@link writeBatch}. */
  readonly batch: string;
  /** Folder for the new checkpoint's files; created if missing. Every file and the folder are fsynced. */
  readonly into: string;
  /** Sent to Python unchanged; native/learner/objective.py checks it. */
  readonly objective: Objective;
  readonly learningRate: number;
  /** At which the batch was sampled: the batch says so too, and an update of another is refused. */
  readonly temperature?: number;
  /** Weight of the KL divergence to the base model (k3 estimate); 0 does not compute it. */
  readonly klCoefficient: number;
  /** The weight π_old/π_rollout that corrects for the engine's rounding, and its bounds. */
  readonly importance: { readonly mode: ImportanceMode; readonly low: number; readonly high: number };
  readonly maxGradNorm: number;
  /** Tokens in one forward pass at most; a longer trajectory gets a pass of its own. */
  readonly microBatchTokens: number;
  /** Recomputes activations in the backward pass to keep fewer in memory. */
  readonly gradientCheckpointing: boolean;
  /** Highest number of tokens of a completion, the divisor of a "constant" normaliser. */
  readonly maxCompletionTokens?: number;
  /**
   * Rollouts that the loss is a mean over, for objectives with a mean over rollouts: those in the batch, and those left out
   * because their gradient would be zero. Default: those in it.
   */
  readonly rollouts?: number;
  /** Sampled tokens of the same, for objectives with a mean over tokens; not those of rollouts that are masked. */
  readonly sampledTokens?: number;
  /** SHA-256 of the adapter that is to be trained on, null for a new one: a learner that has another refuses. */
  readonly adapter?: string | null;
  /** Passes over this batch; π_old is the policy before the first update. Default 1. */
  readonly epochs?: number;
  /** Updates in each pass. Whole groups are assigned to them by the seed, once for all passes. Default 1. */
  readonly minibatches?: number;
  /** Used for that assignment only. Default 0. */
  readonly seed?: number;
  /**
   * The policy that played the batch, where it is not the current one: a checkpoint folder, or null for the model before any
   * training. `mismatch` and `played` of the metrics are then about it.
   */
  readonly playedBy?: { readonly checkpoint: string | null };
  /** An earlier policy, which may have played the batch instead (`played` of the metrics). */
  readonly earlier?: { readonly checkpoint: string | null };
  /**
   * Type to which the engine rounds adapters, or A alone. The policy is computed with rounded ones; the learner's own, which is updated and
   * saved, stays in f32. Default "f32".
   */
  readonly adapterType?: (typeof ADAPTER_TYPES)[number];
  /** The policy of one update before the one that is to have played, where `earlier` is another. */
  readonly previous?: { readonly checkpoint: string | null };
  readonly onProgress?: OnProgress;
}

const slope = z.object({ slope: z.number(), error: z.number(), tokens: z.number() });

export const stepMetrics = z.object({
  /**
   * False when the loss or the gradient was not finite: weights, optimizer and random state are as before and no
   * checkpoint was written.
   */
  applied: z.boolean(),
  /** Why it was not applied. */
  skipped: z.enum(["loss", "gradient"]).nullable(),
  /** Updates that were applied: all of them, or none. */
  updates: z.number(),
  /** Mean over the updates. null where one was not finite. */
  loss: z.number().nullable(),
  /** Norm before clipping, mean over the updates. null where one was not finite. */
  gradNorm: z.number().nullable(),
  /**
   * Distance between the engine's and the learner's log-probabilities of the sampled tokens before the update, nats. With
   * `playedBy` those of that policy, over a part of the tokens; `mismatchKl` too.
   */
  mismatch: z.object({ mean: z.number(), p99: z.number(), max: z.number() }),
  /** Estimates of KL(rollout policy ‖ learner) before the update (Schulman's k1 and k3), nats a token. */
  mismatchKl: z.object({ k1: z.number(), k3: z.number() }),
  /**
   * With `playedBy`, how far the learner's policy before the update is from that one, over `n` tokens: the mean distance of their
   * log-probabilities, and an estimate (k3) of KL(playedBy ‖ current), nats a token.
   */
  drift: z.object({ mean: z.number(), kl: z.number(), n: z.number() }).nullable(),
  /** KL to the base model (k3); null when its coefficient is 0, or where it was not finite. */
  klBase: z.number().nullable(),
  /**
   * Shares of sampled tokens, over all updates, on which the lower and the upper bound of the ratio acted: it took their
   * gradient away, or (cispo) bounded its weight. 0 with one update.
   */
  clip: z.object({ below: z.number(), above: z.number() }),
  /**
   * Mean KL divergences over the probe's `n` tokens, nats: of the policy before the update from the base model, and from the
   * policy after the update. null where not finite, or all weights are trained (`base`), or nothing was applied.
   */
  probeKl: z.object({ base: z.number().nullable(), update: z.number().nullable(), n: z.number() }).nullable(),
  /** Passes repeated because f16 overflowed: with a lower loss scale, the last one possibly in bf16. */
  overflows: z.number(),
  /**
   * Shares of sampled tokens whose importance weight was bounded, or set to 0; and the effective sample size of the unbounded
   * ratios of tokens, as a share of them.
   */
  importance: z.object({ truncated: z.number(), masked: z.number(), ess: z.number() }),
  /**
   * Slope of (rollout - earlier policy) on (current policy - earlier policy), log-probabilities of `tokens` of the batch, and
   * its standard error: 1 where the current policy (or `playedBy`) played, 0 where the earlier one did. null without `earlier`, and where the
   * tokens cannot tell the two apart. `previous`: the same from the policy of one update before.
   */
  played: slope.extend({ previous: slope.nullable() }).nullable(),
  /** Mean entropy of the next-token distribution at the sampled positions of the batch, nats. */
  entropy: z.number(),
  groups: z.number(),
  trajectories: z.number(),
  /** Of those: more where an agent's rollouts have several. */
  sequences: z.number(),
  tokens: z.object({
    /** Over all trajectories. */
    total: z.number(),
    sampled: z.number(),
    /** Positions actually computed in one pass over the batch: a prefix that rollouts share counts once per row. */
    computed: z.number(),
    /** Padding among them: rows are padded to few lengths where a card computes them in one attention call. */
    padding: z.number(),
  }),
  microBatches: z.number(),
  learningRate: z.number(),
  /** Device of the parameters during the update, "cpu" or the GPU's name, and the precision. */
  device: z.string(),
  precision: z.enum(PRECISIONS),
  /** To which the adapter in force was rounded for the update; several where that is the same. */
  adapterTypes: z.array(z.enum(ADAPTER_TYPES)).optional(),
  seconds: z.object({ update: z.number(), save: z.number(), checks: z.number(), total: z.number() }),
  /** Highest resident (CPU) or allocated (CUDA) bytes during the update, and those of the loaded model before it. */
  memory: z.object({ peak: z.number(), loaded: z.number() }),
  /** Notes for the user about parts of the fast path that do not work on this card, and why. Each is sent once. */
  notes: z.array(z.string()).optional(),
});

export type StepMetrics = z.output<typeof stepMetrics>;

export interface SftSettings {
  /** File of {@link writeBatch}; advantages weigh the trajectories (1 each, as a rule). */
  readonly batch: string;
  readonly into: string;
  readonly learningRate: number;
  /** Share of all updates over which the rate rises from 0; then it falls linearly to 0. */
  readonly warmup: number;
  readonly epochs: number;
  /** Trajectories in one update. */
  readonly updateTrajectories: number;
  readonly maxGradNorm: number;
  readonly microBatchTokens: number;
  readonly gradientCheckpointing: boolean;
  readonly onProgress?: OnProgress;
}

export const sftMetrics = z.object({
  updates: z.number(),
  /** Updates left out because their loss or gradient was not finite. */
  skipped: z.number(),
  /** As in {@link stepMetrics}. */
  overflows: z.number(),
  /** Mean negative log-likelihood of a sampled token, nats: in the first update and in the last. */
  loss: z.object({ first: z.number(), last: z.number() }),
  trajectories: z.number(),
  tokens: z.object({ total: z.number(), sampled: z.number(), computed: z.number(), padding: z.number() }),
  seconds: z.object({ update: z.number(), save: z.number(), checks: z.number(), total: z.number() }),
  memory: z.object({ peak: z.number(), loaded: z.number() }),
  /** As in {@link stepMetrics}. */
  notes: z.array(z.string()).optional(),
});

export type SftMetrics = z.output<typeof sftMetrics>;

/** The learner's facts once the model is loaded. */
export const learnerInfo = z.object({
  backend: z.enum(["peft", "unsloth"]),
  /** Device of its updates, "cpu" or the GPU's name; with "offload" and "step" the parameters are there during updates only. */
  device: z.string(),
  /** The model is in main memory between updates. */
  offloaded: z.boolean(),
  /** CUDA of PyTorch's build and the version of NVIDIA's driver; null where it does not compute on CUDA. */
  cuda: z.object({ version: z.string(), driver: z.string().nullable() }).nullable(),
  precision: z.enum(PRECISIONS),
  architecture: z.string(),
  /** Type of the base weights: "f16", "q8_0", ... */
  weights: z.string(),
  /** Quantised matrices are kept as the file's blocks. */
  blocks: z.boolean(),
  parameters: z.object({ total: z.number(), trainable: z.number() }),
  versions: z.record(z.string(), z.string()),
  /** Updates of its optimizer for the objective it was last used for: 0 for a new adapter. */
  updates: z.number(),
  /** Processes that compute updates together. */
  ranks: z.number().optional(),
  seconds: z.number(),
});

export type LearnerInfo = z.output<typeof learnerInfo>;
