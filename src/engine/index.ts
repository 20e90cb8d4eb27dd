/** The engine: token ids in, token ids and logprobs out. */
export { loadAddon } from "./addon.js";
export { type Allowed, AllowedParts, bitsOf, isIn } from "./allowed.js";
export { contextsOf, lanesFor, lanesOf, pooledByDefault, SCORE_ROWS, UBATCH } from "./contexts.js";
export type {
  Engine,
  EngineCompute,
  EngineInfo,
  EngineMemory,
  EngineOptions,
  EngineStats,
  Gpu,
  LocalEngine,
  LocalEngineInfo,
  LocalEngineOptions,
  OwnServerOptions,
  PolicyEngine,
  ServedEngineInfo,
  VllmOptions,
} from "./engine.js";
export { isLocal } from "./engine.js";
export { EngineOutOfMemory } from "./errors.js";
export { addDraws, afterTurn, digestOf } from "./evaluated.js";
export { loadEngine } from "./factory.js";
export { fetchLibraries, librariesFolder } from "./libraries.js";
export { gpuMemory, onEngineLog } from "./load.js";
export {
  cudaExists,
  ggmlBase,
  gpuTitles,
  hasVulkan,
  hasVulkanCard,
  installedBackends,
  lackingLibraries,
  llamaCommand,
  nvidiaBroken,
} from "./missing.js";
export {
  attendingLayers,
  chatTemplatesOf,
  type ModelHeader,
  type ModelShape,
  modelFile,
  modelFingerprint,
  modelHeader,
  modelShape,
  trainedContext,
} from "./models.js";
export { drawsOnDevice, engineOptions, gpuChosen, type MachineChoice } from "./options.js";
export { QUANTISED, type Quantised, quantizeModel } from "./quantize.js";
export type {
  DrawStatistics,
  Evaluated,
  Generated,
  GenerateOptions,
  GenerateStop,
  Grammar,
  SampledToken,
  Sampling,
  ScoredToken,
  Sequence,
} from "./sequence.js";
export { decodeThreads, usableCores } from "./threads.js";
export { tokenizeWithin } from "./tokenize-within.js";
export { joinOptions, outagesOf, VLLM_VERSION } from "./vllm/index.js";
export { tokenBytes } from "./vocabulary.js";
