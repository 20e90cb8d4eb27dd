/**
 * Number of tokens of the learner's rows on a card: short rows leave most of it idle, as launching kernels then takes longer
 * than running them.
 */
import { learnsOnCuda, type PlanInput } from "./input.js";
import { fits, type Room } from "./remedies.js";

/** Longer rows gain nothing more. */
export const WIDEST_ROW = 65_536;
/** Share of the free memory: CUDA's own need is assumed (learner-memory.ts), and a run must not fail for longer rows. */
const SHARE = 0.8;

/** Makes rows as long as fit easily, on CUDA only: a CPU gains nothing by it. Not run on CUDA. */
export function withWideRows(input: PlanInput, room: Room): PlanInput {
  if (!learnsOnCuda(input)) return input;
  let wide = input;
  const less: Room = { host: room.host, gpu: SHARE * room.gpu, learnerGpu: SHARE * (room.learnerGpu ?? 0) };
  for (;;) {
    const next = { ...wide, microBatchTokens: 2 * wide.microBatchTokens };
    if (next.microBatchTokens > WIDEST_ROW || !fits(next, less)) return wide;
    wide = next;
  }
}
