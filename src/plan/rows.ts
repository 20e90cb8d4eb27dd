/** How many tokens a row of the learner has on a card: short rows leave most of it idle, as launching their kernels takes longer than they do. */
import type { PlanInput } from "./input.js";
import { fits, type Room } from "./remedies.js";

/** Tokens beyond which a row gains nothing more. */
export const WIDEST_ROW = 65_536;
/** Of the room: what CUDA itself takes is assumed (learner-memory.ts), and a run must not fail for longer rows. */
const SHARE = 0.8;

/** With rows as long as fit easily. Anywhere but on CUDA as it was: a CPU gains nothing by it. Not run on CUDA. */
export function withWideRows(input: PlanInput, room: Room): PlanInput {
  if (input.gpu !== "cuda") return input;
  let wide = input;
  for (;;) {
    const next = { ...wide, microBatchTokens: 2 * wide.microBatchTokens };
    if (next.microBatchTokens > WIDEST_ROW || !fits(next, { host: room.host, gpu: SHARE * room.gpu })) return wide;
    wide = next;
  }
}
