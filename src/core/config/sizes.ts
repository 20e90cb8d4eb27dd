/** Sizes of models, by which defaults of training differ. */

export type Size = "tiny" | "small" | "large";

/** Upper bound of each size, in parameters. */
const BELOW = { tiny: 1e8, small: 2e9, large: Number.POSITIVE_INFINITY } as const;

export function sizeOf(parameters: number): Size {
  return parameters < BELOW.tiny ? "tiny" : parameters < BELOW.small ? "small" : "large";
}

/** A value for each size; without `large` that is the value of `small`. */
export interface BySize<T> {
  readonly tiny: T;
  readonly small: T;
  readonly large?: T;
}

/** For people: "0.003 below 0.1 billion parameters, 1e-5 below 2 billion, 5e-6 above". One value when all are equal. */
export function bySizeText(values: BySize<unknown>): string {
  const show = (value: unknown) =>
    typeof value === "number" && value > 0 && value < 1e-3 ? value.toExponential() : String(value);
  const tiny = show(values.tiny);
  const small = show(values.small);
  const large = show(values.large ?? values.small);
  if (tiny === small && small === large) return tiny;
  if (small === large) return `${tiny} below ${BELOW.tiny / 1e9} billion parameters, ${small} above`;
  return `${tiny} below ${BELOW.tiny / 1e9} billion parameters, ${small} below ${BELOW.small / 1e9} billion, ${large} above`;
}

/** AdamW's numbers. Not options: what a run is tuned by are the learning rate and the norm of gradients. */
export interface Adam {
  /** Decay of the mean of gradients, and of the mean of their squares. */
  readonly betas: readonly [number, number];
  readonly weightDecay: number;
}

/** ART's, except for models below 0.1 billion parameters, which have far larger rates and few steps. */
export const adamOf = (parameters: number): Adam =>
  sizeOf(parameters) === "tiny" ? { betas: [0.9, 0.95], weightDecay: 0 } : { betas: [0.9, 0.99], weightDecay: 0.1 };
