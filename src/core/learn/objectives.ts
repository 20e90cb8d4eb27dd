/**
 * The objectives of training, one record each. `--loss` takes their names; a record goes to the learner, with the bounds
 * that are given in place of its own. CONTRIBUTING.md says how one is added.
 */

/** How a rollout's advantage follows from its group's rewards; see src/core/learn/advantages.ts. */
export const advantageEstimators = ["grpo", "dr-grpo", "rloo"] as const;
export type AdvantageEstimator = (typeof advantageEstimators)[number];

export interface Objective {
  readonly name: string;
  readonly about: string;
  readonly paper: string;
  /** The default of --advantages. */
  readonly advantages: AdvantageEstimator;
  /** A function of native/learner/loss.py (SURROGATES). */
  readonly surrogate: "clipped-ratio" | "clipped-weight";
  /** π_θ/π_old of a token, or the geometric mean of those of its sequence; a rollout of an agent may have several. */
  readonly ratio: "token" | "sequence";
  /**
   * The divisor of the sum of the losses: the sampled "tokens" of all rollouts, with those of groups without spread; each
   * rollout's own tokens, of all its sequences, and then the number of rollouts ("sequences", as the papers call them); or a "constant", rollouts × the highest number of tokens of one.
   */
  readonly normaliser: "tokens" | "sequences" | "constant";
  /** The ratio is bounded by 1 − clipLow from below; null: not at all. */
  readonly clipLow: number | null;
  /** The ratio is bounded by 1 + clipHigh from above. */
  readonly clipHigh: number;
}

/** DAPO's bounds. Those of the paper of dr-grpo are symmetric: --clip-high 0.2. */
const clipped = { surrogate: "clipped-ratio", ratio: "token", clipLow: 0.2, clipHigh: 0.28 } as const;

export const objectives = {
  dapo: {
    ...clipped,
    name: "dapo",
    about:
      "clipped ratio of each token, mean over all tokens; its paper's other parts are --refill and --mask-truncated",
    paper: "arXiv 2503.14476",
    advantages: "grpo",
    normaliser: "tokens",
  },
  grpo: {
    ...clipped,
    name: "grpo",
    about: "the same, symmetric bounds, mean over each rollout's tokens, then over rollouts",
    paper: "arXiv 2402.03300",
    advantages: "grpo",
    normaliser: "sequences",
    clipHigh: 0.2,
  },
  "dr-grpo": {
    ...clipped,
    name: "dr-grpo",
    about: "dapo, but the sum divided by rollouts × --max-turns × --max-tokens",
    paper: "arXiv 2503.20783",
    advantages: "dr-grpo",
    normaliser: "constant",
  },
  gspo: {
    name: "gspo",
    about: "one clipped ratio for a rollout, mean over rollouts",
    paper: "arXiv 2507.18071",
    advantages: "grpo",
    surrogate: "clipped-ratio",
    ratio: "sequence",
    normaliser: "sequences",
    clipLow: 3e-4,
    clipHigh: 4e-4,
  },
  // MiniMax-M1 names no upper bound; 5 is that of ScaleRL (arXiv 2510.13786), which TRL recommends.
  cispo: {
    name: "cispo",
    about: "the ratio, bounded from above, as a constant weight: every token keeps a gradient",
    paper: "arXiv 2506.13585",
    advantages: "grpo",
    surrogate: "clipped-weight",
    ratio: "token",
    normaliser: "tokens",
    clipLow: null,
    clipHigh: 4,
  },
} as const satisfies Readonly<Record<string, Objective>>;

export type ObjectiveName = keyof typeof objectives;

export const objectiveNames = Object.keys(objectives) as [ObjectiveName, ...ObjectiveName[]];

export const objectiveOf = (name: ObjectiveName): Objective => objectives[name];

/** Correction by π_old/π_rollout for the distance of engine and learner; see native/learner/importance.py. */
export const importanceModes = ["off", "token-truncate", "token-mask", "sequence-truncate", "sequence-mask"] as const;
export type ImportanceMode = (typeof importanceModes)[number];

/** For people: "dapo: …; gspo: …". */
export function objectivesText(): string {
  return Object.values(objectives)
    .map(({ name, about, paper }) => `${name}: ${about} (${paper})`)
    .join("; ");
}

/** For people: "0.2; gspo 0.0003; cispo none". The first objective's value without its name, then those that differ. */
export function boundText(name: "clipLow" | "clipHigh"): string {
  const all: readonly Objective[] = Object.values(objectives);
  const first = all[0]?.[name];
  const others = all.filter((one) => one[name] !== first).map((one) => `${one.name} ${one[name] ?? "none"}`);
  return [first, ...others].join("; ");
}
