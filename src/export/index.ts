/** The door of exports: a trained model in the forms that other programs load, and onto the Hub. */
export { type ExportConfig, type Exported, exportOptions, exportRun } from "./export.js";
export { checkPlace, type FolderKind, needDisk, writeFolder } from "./place.js";
