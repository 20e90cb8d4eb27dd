/** The needs of a run, computed before it begins: memory at its peak, options that would make it fit, and time. */

export { type Fit, fitHere, fitText, smallestCard } from "./by-default.js";
export { decodeSpeed, secondsOfRun } from "./estimate.js";
export { fitToMachine, gigabytes } from "./fit.js";
export { kvBytesOfServer, type Served } from "./input.js";
export { mainMemory } from "./machine.js";
