/** Commands, and functions of the library, that several options name together. */

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

/** Options that the library's `loadModel` takes too. */
export const ofModel = <T extends Readonly<Record<string, object>>>(options: T) =>
  Object.fromEntries(
    Object.entries(options).map(([name, one]) => [name, { ...one, library: ["model"] }]),
  ) as unknown as {
    readonly [N in keyof T]: Omit<T[N], "library"> & { readonly library: readonly ["model"] };
  };
