/** Models of hone for the AI SDK: those of this process, and those that a server of hone's has. */
export { inProcess } from "./in-process.js";
export { languageModel } from "./model.js";
export { overHttp } from "./over-http.js";
export type { Source } from "./source.js";
