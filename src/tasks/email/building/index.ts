/** Building mail databases: from imported mail, or from nothing but a seed. */
export { type BuildProgress, type BuildSource, type BuildSummary, buildMailDatabase } from "./build.js";
