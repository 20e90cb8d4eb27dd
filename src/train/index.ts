/** Training: the step, the loop round it, and all that is brought up for them. */
export { EnginePolicy } from "./engine-policy.js";
export { checkProbe, gapLimit } from "./gap.js";
export { gradeOwn, playAndGrade } from "./grading.js";
export type { Played } from "./parts.js";
export { limitsOf, playingOptions, prepare, type TrainConfig, trainOptions } from "./prepare.js";
export { measureProbe, readProbe } from "./probe.js";
export { scenariosFingerprint, validationScenarios } from "./sampler.js";
export { withAbsolutePaths } from "./settings.js";
export { runTraining, type TrainSummary } from "./training.js";
export { scratch, writeLessons } from "./warm-start.js";
