/** OpenAI-compatible servers: the choice of the key, requests and what is sent in them, answers, errors. */
export { type Call, type Completion, complete } from "./completion.js";
export { type ChatMessage, type ChatQuestion, Dialect, type DialectSettings } from "./dialect.js";
export { eventsOf } from "./events.js";
export { adviceFor, type Cause, ChatError, causeOf, mayPass, type Passing } from "./failure.js";
export { request, textOf } from "./http.js";
export { type ChatServer, checkChatUrl, keyFor } from "./server.js";
export { estimateTokens } from "./tokens.js";
