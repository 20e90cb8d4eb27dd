/** OpenAI-compatible endpoint over models of this process. */
export { ServedModel } from "./model.js";
export { type OpenModel, openSubject, type Subject, subjectOptions } from "./open.js";
export { recordOf } from "./recorder.js";
export { type Endpoint, openEndpoint } from "./server.js";
