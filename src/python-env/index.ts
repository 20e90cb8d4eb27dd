/** The learner's Python environment: which PyTorch this machine needs, its installation, and facts about it. */

export { factsOfPython, type PythonFacts, pinnedPackages, pinnedUnsloth, requirementsFile } from "./facts.js";
export { pythonFor } from "./for-training.js";
export { learnerDevice, prepareMachine } from "./machine.js";
export { ensurePython, packagesOfPython, pythonIsReady } from "./python.js";
export type { Build } from "./stamp.js";
export { ensureTrackers } from "./trackers.js";
export { collectWheels, pythonForWheels } from "./wheels.js";
