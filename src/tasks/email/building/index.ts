/** Building mail databases: from imported mail, from the Hub, or from nothing but a seed. */
export { type BuildProgress, type BuildSource, type BuildSummary, buildMailDatabase } from "./build.js";
export { fetchDataset, type HubProgress } from "./hub.js";
