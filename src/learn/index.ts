/**
 * Learning: from rewards to a better adapter.
 *
 * ```ts
 * const learner = await startLearner({ python, backend: "auto", base: { gguf }, lora, seed, threads, ... });
 * const { advantages } = groupAdvantages(rewards, { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 });
 * await writeBatch(batch, groups, { temperature: 1 });
 * const metrics = await learner.step({ batch, into: "checkpoints/.0021", ... });
 * await learner.close();
 * ```
 */
export { adamOf } from "./adam.js";
export { type AdvantageOptions, deviation, type GroupAdvantages, groupAdvantages } from "./advantages.js";
export { ARCHITECTURES, adaptedLayers, architectureNamed, MODEL_TYPES, targetsOf, tornLayer } from "./architectures.js";
export { type BatchGroup, type BatchSummary, type BatchTrajectory, stepOfBatch, writeBatch } from "./batch.js";
export { LearnerDied, LearnerFailed, LearnerOutOfMemory, LearnerRefused } from "./errors.js";
export { checkLaunch } from "./launch.js";
export { CHECKPOINT_FILES, Learner, startLearner } from "./learner.js";
export { adaptedLinears } from "./linears.js";
export type { Progress } from "./protocol.js";
export { readFloats } from "./safetensors.js";
export {
  type BaseModel,
  type Deadlines,
  KEPT_WEIGHTS,
  KNOWN_TENSORS,
  type LearnerInfo,
  type LearnerLifetime,
  type LearnerSettings,
  LINEAR_LAYERS,
  type LoraSettings,
  type OnProgress,
  PRECISIONS,
  type Precision,
  READABLE_WEIGHTS,
  type SftMetrics,
  type SftSettings,
  type StepMetrics,
  type StepSettings,
} from "./types.js";
