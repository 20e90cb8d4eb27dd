/** The Python environment of learner and trackers: what is installed, facts about it, and a program of it that hone talks to. */

export { type ChildEnd, PythonChild } from "./child.js";
export { factsOfPython, type PythonFacts, pinnedPackages, pinnedUnsloth, requirementsFile } from "./facts.js";
export { pythonFor } from "./for-training.js";
export { learnerDevice, prepareMachine } from "./machine.js";
export { ensurePython, packagesOfPython, pythonIsReady } from "./python.js";
export type { Build } from "./stamp.js";
export { ensureTrackers } from "./trackers.js";
export { collectWheels, pythonForWheels } from "./wheels.js";
