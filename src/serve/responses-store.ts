/** Responses and their items that later requests name by id (`previous_response_id`, `item_reference`). */
import { LRUCache } from "lru-cache";
import type { ResponseItem } from "./responses-request.js";

/** Characters that are kept of conversations, and of items; those used last. */
const MOST = 1 << 25;

const sizeOf = (item: ResponseItem) => JSON.stringify(item).length;

export class ResponseStore {
  readonly #items = new LRUCache<string, ResponseItem>({ maxSize: MOST, sizeCalculation: sizeOf });
  /** All items of the conversation, the response's own at its end. Each conversation counts for itself. */
  readonly #conversations = new LRUCache<string, readonly ResponseItem[]>({
    maxSize: MOST,
    sizeCalculation: (items) => items.reduce((sum, item) => sum + sizeOf(item), 1),
  });

  item(id: string): ResponseItem | undefined {
    return this.#items.get(id);
  }

  conversation(responseId: string): readonly ResponseItem[] | undefined {
    return this.#conversations.get(responseId);
  }

  /** @param output the response's own items, with their ids */
  add(responseId: string, input: readonly ResponseItem[], output: readonly (ResponseItem & { id: string })[]): void {
    for (const item of output) this.#items.set(item.id, item);
    this.#conversations.set(responseId, [...input, ...output]);
  }
}
