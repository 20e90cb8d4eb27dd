/** Conversations of Anthropic's API that the server holds (`thread`): a later request sends its new messages alone. */
import { LRUCache } from "lru-cache";
import type { AnthropicRequest } from "./anthropic-request.js";
import { ApiError, badRequest } from "./errors.js";

/** What a request that continues a thread does not send again. */
export type Held = Pick<AnthropicRequest, "system" | "tools" | "messages">;

/** Characters that are kept, of the conversations used last. */
const MOST = 1 << 25;

/** Its clients send the whole conversation again. */
export const THREAD_NOT_FOUND = "thread_not_found";

export class ThreadStore {
  /** By the id of the conversation's last message. */
  readonly #held = new LRUCache<string, Held>({
    maxSize: MOST,
    sizeCalculation: (held) => JSON.stringify(held, (_, value) => (typeof value === "bigint" ? 0 : value)).length,
  });

  /** The request with what its thread holds. @throws ApiError (400) for an unknown thread */
  resolve(request: AnthropicRequest): AnthropicRequest {
    if (request.thread?.type !== "continue") return request;
    const { system, tools, messages, thread } = request;
    if (system != null || tools != null) {
      throw badRequest("'system' and 'tools' are the thread's: a request that continues it leaves them out", "thread");
    }
    const held = this.#held.get(thread.previous_message_id);
    if (!held) {
      const why = `The thread of message ${thread.previous_message_id} was not found. Threads are kept in memory while there is room: send all messages.`;
      throw new ApiError(400, "invalid_request_error", why, THREAD_NOT_FOUND, "thread");
    }
    return { ...request, ...held, messages: [...held.messages, ...messages] };
  }

  /** @param answer the assistant's message behind the request's */
  add(id: string, { system, tools, messages }: AnthropicRequest, answer: Held["messages"][number]): void {
    this.#held.set(id, { system, tools, messages: [...messages, answer] });
  }
}
