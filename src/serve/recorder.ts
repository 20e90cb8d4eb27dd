/**
 * Conversations as they were sampled. Each turn of the model is a point: the tokens since the point before it, which of
 * them were sampled, and with which log-probability. Points form trees: a conversation that goes on in two ways, or is
 * asked again, shares what came before.
 *
 * A point is found by what a client sends: the messages up to and including the model's turn, as it was sent to the
 * client. Tokens are never made from them again. A client whose copy of a turn differs from what was sampled has
 * rewritten its history: what it sends is then given, not sampled.
 */
import { type TokenRecord, Transcript } from "../rollout/index.js";
import type { ChatMessage, ToolSchema } from "../tasks/index.js";
import { firstKey, nextKey } from "./messages.js";

/** Tokens of one turn, what was given before it included. */
export interface Segment {
  readonly ids: Int32Array;
  /** 1 where the model sampled the token. */
  readonly sampled: Uint8Array;
  /** 0 where it did not. */
  readonly logprobs: Float32Array;
}

export interface Point {
  readonly key: string;
  /** The name of the conversation before the turn. */
  readonly asked: string;
  readonly parent: Point | null;
  readonly segment: Segment;
  /** Tokens of the whole conversation. */
  readonly length: number;
  /** Messages of the first prompt. */
  readonly opening: number;
  /** Whether the turn ended with a token that the template closes turns with. */
  readonly closed: boolean;
  /** Calls of the conversation. */
  readonly calls: number;
  /** Turns of the model that the client wrote otherwise than they were sampled. */
  readonly rewritten: number;
}

/** What a request goes on with. */
export interface Continuation {
  /** Null for a conversation that begins. */
  readonly point: Point | null;
  /** Messages behind the point; all where there is none. */
  readonly next: readonly ChatMessage[];
  /** The name of the conversation with all of its messages. */
  readonly key: string;
  /** Turns among `next` that take the place of one that was sampled. */
  readonly rewritten: number;
}

/** Bounds of what is remembered; 8 bytes a token. */
const MOST_TOKENS = 1 << 22;
const MOST_POINTS = 1 << 15;

export class Recorder {
  /** By key, those used longest ago first; before a point come those that go on from it. */
  readonly #points = new Map<string, Point>();
  /** How many points answer a conversation of that name. */
  readonly #asked = new Map<string, number>();
  readonly #most: { readonly tokens: number; readonly points: number };
  readonly #forget: (point: Point) => void;
  #tokens = 0;

  /** @param forget told of points that are not remembered any more */
  constructor(forget: (point: Point) => void, most = { tokens: MOST_TOKENS, points: MOST_POINTS }) {
    this.#forget = forget;
    this.#most = most;
  }

  get size(): { readonly points: number; readonly tokens: number } {
    return { points: this.#points.size, tokens: this.#tokens };
  }

  find(messages: readonly ChatMessage[], tools: readonly ToolSchema[], scope: string): Continuation {
    const keys = [firstKey(tools, scope)];
    for (const message of messages) keys.push(nextKey(keys.at(-1) as string, message));
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

  /** Remembers a turn: the one that `answer`, as the client gets it, stands for. */
  add(about: Omit<Point, "key" | "length">, answer: ChatMessage): Point {
    const length = (about.parent?.length ?? 0) + about.segment.ids.length;
    const point: Point = { ...about, key: nextKey(about.asked, answer), length };
    const before = this.#points.get(point.key);
    if (before) this.#drop(before);
    this.#points.set(point.key, point);
    this.#tokens += point.segment.ids.length;
    this.#asked.set(point.asked, (this.#asked.get(point.asked) ?? 0) + 1);
    this.#touch(point);
    for (const oldest of this.#points.values()) {
      if (this.#tokens <= this.#most.tokens && this.#points.size <= this.#most.points) break;
      this.#drop(oldest);
    }
    return point;
  }

  /** From the last turn to the first, so that the first is the last to be forgotten. */
  #touch(point: Point): void {
    for (let at: Point | null = point; at; at = at.parent) {
      // One that another of its name has replaced is not remembered for itself.
      if (this.#points.get(at.key) !== at) continue;
      this.#points.delete(at.key);
      this.#points.set(at.key, at);
    }
  }

  #drop(point: Point): void {
    this.#points.delete(point.key);
    this.#tokens -= point.segment.ids.length;
    const left = (this.#asked.get(point.asked) ?? 1) - 1;
    if (left > 0) this.#asked.set(point.asked, left);
    else this.#asked.delete(point.asked);
    this.#forget(point);
  }
}

function chain(point: Point | null): Point[] {
  const points: Point[] = [];
  for (let at = point; at; at = at.parent) points.push(at);
  return points.reverse();
}

/** All tokens of a conversation up to a point. */
export function idsOf(point: Point | null): number[] {
  return chain(point).flatMap(({ segment }) => [...segment.ids]);
}

/** A conversation up to a point as trajectories have it. */
export function recordOf(point: Point): TokenRecord {
  const transcript = new Transcript();
  for (const { segment } of chain(point)) {
    segment.ids.forEach((id, at) => {
      if (segment.sampled[at]) transcript.sampled([id], [segment.logprobs[at] as number]);
      else transcript.given([id]);
    });
  }
  return transcript.record();
}
