/** OpenAI-compatible endpoint over models of this process. */

export { ApiError, badRequest } from "./errors.js";
export type { LocalFetch } from "./local-fetch.js";
export { type Answer, type Conversation, ServedModel, type Wanted } from "./model.js";
export { type Point, recordOf } from "./recorder.js";
export {
  type ApiChoice,
  type ApiMessage,
  type ApiTool,
  type Asked,
  type ChatRequest,
  readChatRequest,
} from "./requests.js";
export { Seats } from "./seats.js";
export { type Endpoint, openEndpoint } from "./server.js";
export { prepareTurns, type Turns } from "./turns.js";
