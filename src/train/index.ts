/** Training: the step, the loop round it, and all that is brought up for them; evaluation of what came out. */
export { EnginePolicy } from "./engine-policy.js";
export { evalOptions, evaluateRun } from "./eval.js";
export { gapLimit } from "./gap.js";
export { gradeOwn, playGraded } from "./grading.js";
export type { LoopParts, View } from "./parts.js";
export { playingOf, validate } from "./playing.js";
export { prepare, type TrainConfig, trainOptions } from "./prepare.js";
export { measureProbe, readProbe } from "./probe.js";
export { scenariosFingerprint } from "./sampler.js";
export { loopSettings, resolveSettings, withAbsolutePaths } from "./settings.js";
export { settleLast, use } from "./settle.js";
export { stagesOf } from "./stages.js";
export { trainStep } from "./step.js";
export { StepClock } from "./step-clock.js";
export { runTraining, type TrainSummary } from "./training.js";
export { type LearnerUpdater, openUpdater } from "./updater.js";
export { scratch, writeLessons } from "./warm-start.js";
