/** Checks before the start that an API can be reached, with a request that costs no tokens. */

import { HoneError } from "../../core/util/errors.js";
import { TimeLimit } from "../../core/util/time-limit.js";
import { adviceFor, ChatError } from "../../serve/openai/failure.js";
import { request } from "../../serve/openai/http.js";
import type { ChatServer } from "../../serve/openai/server.js";

/** Time limit in seconds. */
const PATIENCE = 15;

/**
 * Requests the list of models. A server without such a list counts as reached.
 * @throws HoneError when it cannot be reached, or refuses the key
 */
export async function checkReachable(name: string, server: ChatServer, signal: AbortSignal): Promise<void> {
  using limit = new TimeLimit(PATIENCE, () => undefined);
  const failed = (text: string) => new HoneError(`--versus ${name}: ${server.url} cannot be asked: ${text}`);
  try {
    const response = await request(server, "models", { signal: AbortSignal.any([signal, limit.signal]) });
    await response.body?.cancel();
  } catch (error) {
    signal.throwIfAborted();
    if (limit.signal.aborted) throw failed(`no answer within ${PATIENCE} s`);
    if (!(error instanceof ChatError)) throw error;
    const { status, message } = error;
    if (status !== 0 && status !== 401 && status !== 403) return;
    const advice = status === 0 ? undefined : adviceFor("player", server, error);
    throw failed(advice === undefined ? message : `${message}; ${advice}`);
  }
}
