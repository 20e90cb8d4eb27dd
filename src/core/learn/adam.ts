/** AdamW's numbers. Not options: what a run is tuned by are the learning rate and the norm of gradients. */
import { sizeOf } from "../config/sizes.js";

export interface Adam {
  /** Decay of the mean of gradients, and of the mean of their squares. */
  readonly betas: readonly [number, number];
  readonly weightDecay: number;
}

/** ART's, except for models below 0.1 billion parameters, which have far larger rates and few steps. */
export const adamOf = (parameters: number): Adam =>
  sizeOf(parameters) === "tiny" ? { betas: [0.9, 0.95], weightDecay: 0 } : { betas: [0.9, 0.99], weightDecay: 0.1 };
