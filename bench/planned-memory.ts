/** What `yarn memory-plan` measures, and the plan of src/machine/plan for the same. */

import { LINEAR_LAYERS } from "../src/core/learn/types.js";
import type { ModelShape } from "../src/engine/models.js";
import { engineMemory, WORKERS } from "../src/machine/plan/engine-memory.js";
import type { PlanInput } from "../src/machine/plan/input.js";
import { LONG_ANSWERS, learnerMemory } from "../src/machine/plan/learner-memory.js";

export interface EngineMeasured extends Pick<PlanInput, "concurrency" | "context" | "lanes" | "ubatch" | "sampling"> {
  readonly part: "engine";
  /** Peak of its process in bytes, with one sequence of each lane filled, without an adapter. */
  readonly peak: number;
  /** Of it, what belongs to no file, when the engine has computed: without the weights that are mapped, and without code. */
  readonly anonymous: number;
}

export interface LearnerMeasured {
  readonly part: "learner";
  /** Of the one row of the update. */
  readonly tokens: number;
  readonly checkpointing: boolean;
  /** Peak of its process in bytes once the model is loaded, and of an update. */
  readonly loading: number;
  readonly peak: number;
}

export type MemoryRow = (EngineMeasured | LearnerMeasured) & {
  readonly model: string;
  /** CPU threads. */
  readonly threads: number;
  readonly shape: ModelShape;
};

export const nameOf = (row: MemoryRow): string =>
  row.part === "engine"
    ? `engine, ${row.concurrency} × ${row.context} tokens`
    : `learner, ${row.tokens} tokens${row.checkpointing ? ", checkpointing" : ""}`;

/** A small run on a CPU. */
export const inputOf = (shape: ModelShape): PlanInput => ({
  shape,
  concurrency: 4,
  context: 8192,
  loraRank: 8,
  loraTargets: LINEAR_LAYERS,
  microBatchTokens: 512,
  gradientCheckpointing: false,
  learnerLifetime: "run",
  releaseWeights: false,
  gpu: false,
  precision: "auto",
  hfWeights: false,
  learner: "auto",
  lanes: 1,
  ubatch: 512,
  sampling: "host",
  judge: null,
});

/** Planned bytes of a row: of its peak, and of the learner once it is loaded. */
export function plannedFor(row: MemoryRow): { peak: number; loading: number | null } {
  const input = inputOf(row.shape);
  if (row.part === "engine") {
    const { concurrency, context, lanes, ubatch, sampling } = row;
    const { kv, compute, process } = engineMemory({ ...input, concurrency, context, lanes, ubatch, sampling }).host;
    // No adapter is loaded, and there are no rollout workers.
    return { peak: row.shape.bytes + kv + compute + process - WORKERS, loading: null };
  }
  const { tokens, checkpointing } = row;
  const asked = { ...input, context: tokens, microBatchTokens: tokens, gradientCheckpointing: checkpointing };
  // The measured row has long answers.
  const { process, weights, adapter, pass } = learnerMemory(asked, [LONG_ANSWERS]);
  const loading = process + weights + adapter;
  return { peak: loading + pass, loading };
}
