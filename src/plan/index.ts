/** The needs of a run, computed before it begins: memory at its peak, options that would make it fit, and time. */

export { defaultRun, type Fit, fitHere, fitText, smallestCard } from "./by-default.js";
export { cardsTable, modelsByCardTable } from "./cards.js";
export { isCpu } from "./cluster.js";
export { decodeSpeed, secondsOfRun } from "./estimate.js";
export { fitToMachine, gigabytes } from "./fit.js";
export { kvBytesOfServer, type Served } from "./input.js";
export { mainMemory } from "./machine.js";
export { soldCards } from "./sold.js";
export { planStep } from "./step-plan.js";
export { stepPlanJson, stepPlanText } from "./step-text.js";
