/** Exports trained models in the formats of other programs, and to the Hub. */
export { type ExportConfig, type Exported, exportRun } from "./export.js";
export { checkPlace, type FolderKind, needDisk, writeFolder } from "./place.js";
