/** Training: the step, the loop around it, and the setup of both. */
export { EnginePolicy } from "./engine-policy.js";
export { gradeOwn, playAndGrade, playGraded } from "./grading.js";
export { checkProbe, mismatchLimit } from "./mismatch.js";
export type { LoopParts, Played, View } from "./parts.js";
export { limitsOf, playingOptions, prepare, type TrainConfig, trainOptions } from "./prepare.js";
export { measureProbe, readProbe } from "./probe.js";
export { scenariosFingerprint, validationScenarios } from "./sampler.js";
export { playContextOf, validate } from "./saved-play.js";
export { loopSettings, resolveSettings, withAbsolutePaths } from "./settings.js";
export { settleLast, use } from "./settle.js";
export { stagesOf } from "./stages.js";
export { trainStep } from "./step.js";
export { StepClock } from "./step-clock.js";
export { runTraining, type TrainSummary } from "./training.js";
export { type LearnerUpdater, openUpdater } from "./updater.js";
export { scratch, writeImitationBatch } from "./warm-start.js";
