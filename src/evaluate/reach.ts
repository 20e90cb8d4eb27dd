/** Is an API there? Asked before anybody plays, with a request that costs no tokens. */
import { APIError } from "openai";
import { type ChatServer, chatClient, chatErrorText, refusalHint } from "../chat/index.js";
import { HoneError } from "../util/index.js";

/** Milliseconds. */
const PATIENCE = 15_000;

/**
 * Asks for the list of models. A server that has no such list is there all the same.
 * @throws HoneError when it cannot be reached, or refuses the key
 */
export async function checkReachable(name: string, server: ChatServer, signal: AbortSignal): Promise<void> {
  try {
    await chatClient(server, 0).models.list({ signal, timeout: PATIENCE });
  } catch (error) {
    signal.throwIfAborted();
    const status = error instanceof APIError ? error.status : undefined;
    if (status !== undefined && status !== 401 && status !== 403) return;
    const hint = status === undefined ? undefined : refusalHint("agent", server, status);
    // Without the error as its cause: that one may hold what was sent.
    throw new HoneError(
      `--versus ${name}: ${server.url} cannot be asked: ${chatErrorText(error, server.key)}${hint ? `; ${hint}` : ""}`,
    );
  }
}
