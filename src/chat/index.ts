/** Talking to OpenAI-compatible servers: which key goes where, a client, and what its errors say. */
export { chatClient, chatErrorText } from "./client.js";
export { type ChatServer, checkChatUrl, keyFor, refusalHint } from "./server.js";
