/**
 * Devices: which GPU, which driver, which CUDA.
 *
 * ```ts
 * takeDevice({ gpu: "auto", device: "1" });  // before anything loads llama.cpp or starts the learner
 * const report = reportDevice({ gpu: "auto" });  // for people: changes nothing
 * ```
 */

export { buildForMachine, type Device, learnerDevice, unfit } from "./build.js";
export { type CudaFit, type CudaMajor, capabilityText, cudaFor, majorOf, oldestDriver } from "./cuda.js";
export {
  type CudaReport,
  cudaFound,
  cudaLibraries,
  currentDevice,
  type DeviceChoice,
  type DeviceReport,
  learnerCards,
  lookForCuda,
  reportDevice,
  type TakenDevice,
  takeDevice,
  usesCuda,
} from "./device.js";
export {
  BUILDS,
  type Build,
  buildTitles,
  environmentFolder,
  extrasIn,
  interpreterIn,
  lockFile,
  madeEnvironments,
  WHEELS_FOLDER,
  writeStamp,
} from "./environment.js";
export { type LearnerPlace, learnerPlace } from "./learner-place.js";
export { lookAtNvidia, type Machine, type NvidiaGpu, type NvidiaLook } from "./nvidia.js";
export {
  DRIVER_LIBRARY,
  describePackages,
  isComplete,
  libraryPath,
  type PythonPackages,
  packagesIn,
  type Runtime,
  runtimeNames,
} from "./runtime.js";
export { describe } from "./visible.js";
