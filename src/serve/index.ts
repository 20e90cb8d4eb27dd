/** OpenAI-compatible endpoint over models of this process. */

export { demandsOf } from "./constrain.js";
export { Deltas, reasoningOf } from "./deltas.js";
export { ApiError, badRequest } from "./errors.js";
export { callFormOf, formatOf } from "./formats.js";
export { messagesOf, toolsOf } from "./messages.js";
export { type Answer, type Conversation, ServedModel, type Wanted } from "./model.js";
export { type Point, recordOf } from "./recorder.js";
export type { ApiChoice, ApiMessage, ApiTool, Asked } from "./requests.js";
export { Seats } from "./seats.js";
export { type Endpoint, openEndpoint } from "./server.js";
