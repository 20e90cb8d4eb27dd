/** Messages between `hone doctor` and the process of its trial. */

/** Name of the learner's log in the folder of a trial. */
export const LEARNER_LOG = "learner.log";

export interface TrialRequest {
  readonly gpu: "auto" | "cuda" | "vulkan" | "metal" | "off";
  readonly device: string | undefined;
  readonly threads: number | undefined;
  readonly learner: "auto" | "peft" | "unsloth";
  /** A GGUF file. */
  readonly model: string;
  /** Interpreter of the learner; null tries no update. */
  readonly python: string | null;
  /** An empty folder. */
  readonly folder: string;
  /** Seconds of rollouts. */
  readonly seconds: number;
}

export interface EngineTrial {
  /** As executed. */
  readonly compute: object;
  /** The devices, in words. */
  readonly words: string;
  readonly loadSeconds: number;
  readonly rollouts: number;
  readonly tokens: number;
  readonly tokensPerSecond: number;
}

export interface LearnerTrial {
  readonly backend: "peft" | "unsloth";
  readonly device: string;
  readonly precision: string;
  readonly loadSeconds: number;
  readonly updateSeconds: number;
  /** Bytes. */
  readonly peak: number;
  /** Mean distance between the engine's and the learner's log-probabilities of the sampled tokens, nats. */
  readonly mismatch: number;
  /** Its limit for these weights. */
  readonly limit: number;
  /** The learner's own: which of its faster ways it goes without, and why. */
  readonly notes: readonly string[];
}

/** Distances of the engine with the new adapter to the learner after the update, and before it: nats. */
export interface AdapterTrial {
  readonly after: number;
  readonly before: number;
}

export type TrialMessage =
  | { readonly kind: "say"; readonly text: string }
  | { readonly kind: "engine"; readonly result: EngineTrial }
  | { readonly kind: "learner"; readonly result: LearnerTrial }
  | { readonly kind: "adapter"; readonly result: AdapterTrial }
  | { readonly kind: "failed"; readonly message: string };
