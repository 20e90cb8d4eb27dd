/** `hone doctor`: whether this machine can run hone, on what, and how to mend what is wrong. */
export { type Check, checkText } from "./check.js";
export { diagnose } from "./diagnose.js";
