/** A run's folder and nothing else: its store, its checkpoints, its lock, its records. */
export { type BeginRun, beginRun } from "./begin.js";
export { type OpenCheckpoints, openCheckpoints, optionsOfCheckpoint } from "./checkpoint-choice.js";
export { ADAPTER_FILE, Checkpoints, sealCheckpoint } from "./checkpoints.js";
export { logEngine } from "./engine-log.js";
export { adapterTypeIn, adapterTypeOf, engineNumerics, learnerNumerics, learnerPart, numericsOf } from "./numerics.js";
export { type FoundRun, findRun, findRuns, namedRun, placeOf } from "./place.js";
export { type LogTail, type RolloutFilter, type RolloutRow, RunReader, type SeenRollout } from "./reader.js";
export {
  type Adapter,
  type Device,
  type Evaluation,
  type JudgeCount,
  type Kinds,
  type MetricsLine,
  metricsLine,
  mismatchesOf,
  type PlayedGroup,
  type PolicySlope,
  type ProbeReading,
  type RolloutCredit,
  type RolloutPhase,
  type RunRecord,
  type ScenarioDifficulty,
  type SkipReason,
  type StepMetricsRow,
  type StepRow,
  type StepTiming,
  type ValidationRow,
} from "./records.js";
export { BATCH_FILE, bestOf, Run, STORE_FILE } from "./run.js";
export { checkRemoved, checkSameRun, type RunSettings, settingsOf, taskOptionsIn } from "./settings.js";
export { RunStore } from "./store.js";
