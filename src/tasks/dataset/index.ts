/** Scenarios from data files: JSON lines, CSV, Parquet, on this machine or on the Hub. */
export { type FileScenarios, type FromFile, fromFile } from "./from-file.js";
export { openParquet, type ParquetFile } from "./parquet.js";
