/** Commands that several options name together. */

/** They make a model ready to run: downloaded, converted by the learner's Python where it has to be. */
export const MODEL_USERS = [
  "rollout",
  "sft",
  "train",
  "eval",
  "export",
  "pack",
  "models pull",
  "serve",
  "chat",
  "logprobs",
  "doctor",
] as const;
