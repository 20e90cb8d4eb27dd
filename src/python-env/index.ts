/** The Python environment of learner and trackers: what is installed, and a program of it that hone talks to. */

export { type ChildEnd, PythonChild } from "./child.js";
export { pinned } from "./declared.js";
export { packagesOfPython } from "./given.js";
export { installPackages, PIP } from "./install.js";
export { findPython, makeVenv, type PythonVersion, RANGE, suitable, versionOf } from "./interpreter.js";
export { fetchForGpu, prepareMachine, pythonFor } from "./machine.js";
export { WHEELS_LIST } from "./packed.js";
export { ensurePython, type PythonOptions, pythonIsReady } from "./python.js";
export { ensureVllm, type VllmPython, vllmIsReady } from "./vllm.js";
export { fileOfWheel, type WheelChoice } from "./wheel.js";
