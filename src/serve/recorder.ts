/**
 * Records conversations token by token. Each turn of the model is a point: the tokens since the previous point. Points form
 * trees: conversations with a common beginning share points.
 *
 * A point is looked up by the messages up to and including the model's turn, as it was sent to the client. Messages are
 * never tokenised again for it. If a client's copy of a turn differs from the sampled one, it has rewritten its
 * history, and its version counts as given, not sampled.
 */
import type { ChatMessage, ToolSchema } from "../core/task/task.js";
import { hasBigint, mapBigints } from "../core/util/json.js";
import { firstKey, nextKey } from "./messages.js";

export interface Point {
  readonly key: string;
  /** Its key at a client that rounds integers beyond 2^53 - 1, as JavaScript's do; undefined without any. */
  readonly roundedKey: string | undefined;
  /** Key of the conversation before the turn. */
  readonly asked: string;
  readonly parent: Point | null;
  /** Tokens of its turn, including the given ones before it. */
  readonly ids: Int32Array;
  /** Number of tokens in the whole conversation. */
  readonly length: number;
  /** Number of messages in the first prompt. */
  readonly opening: number;
  /** Whether the turn ended with a token with which the template closes turns. */
  readonly closed: boolean;
  /** Number of calls in the conversation. */
  readonly calls: number;
  /** Number of the model's turns that the client has rewritten. */
  readonly rewritten: number;
}

/** Limits of the memory; 4 bytes per token. */
const MOST_TOKENS = 1 << 22;
const MOST_POINTS = 1 << 15;

export class Recorder {
  /** By key, least recently used first; continuations come before the point that they continue. */
  readonly #points = new Map<string, Point>();
  /** Keys by `roundedKey`: such a client has not rewritten its history. */
  readonly #rounded = new Map<string, string>();
  /** Number of points that answer the conversation with this key. */
  readonly #asked = new Map<string, number>();
  readonly #most: { readonly tokens: number; readonly points: number };
  readonly #forget: (point: Point) => void;
  #tokens = 0;

  /** @param forget called with each evicted point */
  constructor(forget: (point: Point) => void, most = { tokens: MOST_TOKENS, points: MOST_POINTS }) {
    this.#forget = forget;
    this.#most = most;
  }

  get size(): { readonly points: number; readonly tokens: number } {
    return { points: this.#points.size, tokens: this.#tokens };
  }

  /**
   * The continuation of a recorded conversation by a request: its point, null for a new conversation; the messages after it, all of
   * them without a point; the key of the conversation with all of its messages; and the number of turns in `next` that replace a
   * sampled one.
   */
  find(messages: readonly ChatMessage[], tools: readonly ToolSchema[], scope: string) {
    const keys = [firstKey(tools, scope)];
    for (const message of messages) {
      const key = nextKey(keys.at(-1) as string, message);
      keys.push(this.#points.has(key) ? key : (this.#rounded.get(key) ?? key));
    }
    const key = keys.at(-1) as string;
    let rewritten = 0;
    for (let index = messages.length - 1; index >= 0; index--) {
      if (messages[index]?.role !== "assistant") continue;
      const point = this.#points.get(keys[index + 1] as string);
      if (point) {
        this.#touch(point);
        return { point, next: messages.slice(index + 1), key, rewritten };
      }
      if (this.#asked.has(keys[index] as string)) rewritten++;
    }
    return { point: null, next: messages, key, rewritten };
  }

  /** Records a turn. The client's later requests contain `answer` in its place. */
  add(about: Omit<Point, "key" | "roundedKey" | "length">, answer: ChatMessage): Point {
    const length = (about.parent?.length ?? 0) + about.ids.length;
    const roundedKey = hasBigint(answer) ? nextKey(about.asked, mapBigints(answer, Number)) : undefined;
    const point: Point = { ...about, key: nextKey(about.asked, answer), roundedKey, length };
    const before = this.#points.get(point.key);
    if (before) this.#drop(before);
    this.#points.set(point.key, point);
    if (roundedKey !== undefined) this.#rounded.set(roundedKey, point.key);
    this.#tokens += point.ids.length;
    this.#asked.set(point.asked, (this.#asked.get(point.asked) ?? 0) + 1);
    this.#touch(point);
    for (const oldest of this.#points.values()) {
      if (this.#tokens <= this.#most.tokens && this.#points.size <= this.#most.points) break;
      this.#drop(oldest);
    }
    return point;
  }

  /** Marks as used from the last turn to the first, so that the first is evicted last. */
  #touch(point: Point): void {
    for (let at: Point | null = point; at; at = at.parent) {
      // A point that was replaced by another of the same key is not kept for itself.
      if (this.#points.get(at.key) !== at) continue;
      this.#points.delete(at.key);
      this.#points.set(at.key, at);
    }
  }

  #drop(point: Point): void {
    this.#points.delete(point.key);
    if (point.roundedKey !== undefined) this.#rounded.delete(point.roundedKey);
    this.#tokens -= point.ids.length;
    const left = (this.#asked.get(point.asked) ?? 1) - 1;
    if (left > 0) this.#asked.set(point.asked, left);
    else this.#asked.delete(point.asked);
    this.#forget(point);
  }
}

/** All tokens of a conversation up to a point. */
export function idsOf(point: Point | null): number[] {
  const parts: Int32Array[] = [];
  for (let at = point; at; at = at.parent) parts.push(at.ids);
  return parts.reverse().flatMap((ids) => [...ids]);
}
