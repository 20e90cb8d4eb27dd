/** `hone doctor`: whether this machine can run hone, on which device, and how to fix problems. */
export { type Check, checkText } from "./check.js";
export { diagnose } from "./diagnose.js";
