/** Builds mail databases from imported mail, or synthetic ones from a seed. */
export { type BuildProgress, type BuildSource, type BuildSummary, buildMailDatabase } from "./build.js";
