/** Models by name: from the Hugging Face Hub, a folder, a file or hone's own, to the GGUF file that the engine loads. */
export {
  ADOPTED_FILES,
  adopted,
  checkBelongs,
  checkSettings,
  isPeft,
  type PeftAdapter,
  peftFingerprint,
  readPeft,
} from "./adapter.js";
export { catalogue, type HubEntry, shapeOf, toolCallsOf } from "./catalogue.js";
export { modelFolder } from "./folder.js";
export { checkTrainable, conversingModel } from "./header.js";
export { listModels, type ModelRow, type Removed, removeModel, showModel } from "./installed.js";
export { linesTo, type ModelIo } from "./io.js";
export { PORTABLE, type PortableModel, portableModel } from "./portable.js";
export { run as runProgram } from "./program.js";
export { isCatalogueName, type ModelReference, nameOf, readReference } from "./reference.js";
export { type ModelConfig, resolveModel, resolveWithSource } from "./resolve.js";
export { filesOf, unchangedFiles } from "./source.js";
