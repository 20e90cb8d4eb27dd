/** Exports trained models in the formats of other programs, and to the Hub. */
export { type ExportConfig, type Exported, exportOptions, exportRun } from "./export.js";
