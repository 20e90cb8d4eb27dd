/** Checks before the start that an API can be reached, with a request that costs no tokens. */
import { type ChatServer, chatClient, chatErrorText, isApiError, refusalHint } from "../openai/index.js";
import { HoneError } from "../util/index.js";

/** Time limit in milliseconds. */
const PATIENCE = 15_000;

/**
 * Requests the list of models. A server without such a list counts as reached.
 * @throws HoneError when it cannot be reached, or refuses the key
 */
export async function checkReachable(name: string, server: ChatServer, signal: AbortSignal): Promise<void> {
  try {
    await (await chatClient(server, 0)).models.list({ signal, timeout: PATIENCE });
  } catch (error) {
    signal.throwIfAborted();
    const status = isApiError(error) ? error.status : undefined;
    if (status !== undefined && status !== 401 && status !== 403) return;
    const hint = status === undefined ? undefined : refusalHint("player", server, status);
    // Without the error as its cause, which may contain the request's headers.
    throw new HoneError(
      `--versus ${name}: ${server.url} cannot be asked: ${chatErrorText(error, server.key)}${hint ? `; ${hint}` : ""}`,
    );
  }
}
