/** OpenAI-compatible servers: the choice of the key, the client, error messages. */
export { chatClient, chatErrorText, connectionFailure, isApiError, streamingClient } from "./client.js";
export { type ChatServer, checkChatUrl, keyFor, refusalHint } from "./server.js";
