/**
 * Trajectories as a judge reads them: one JSON message per line, the common messages once. No text of a trajectory can close
 * its block: every "<" is written as the JSON escape \u003c.
 */

import type { Trajectory } from "../core/rollout/trajectory.js";
import type { ChatMessage, ToolSchema } from "../core/task/task.js";
import { toJson } from "../core/util/json.js";
import { cutText } from "../core/util/text.js";
import { estimateTokens } from "../serve/openai/tokens.js";
import { NoVerdict } from "./no-verdict.js";

/** JSON without any "<": outside of strings JSON has none, and inside them the escape means the same. */
export function tagless(value: unknown): string {
  return toJson(value).replaceAll("<", "\\u003c");
}

export interface Attempt {
  /** The messages after those that all attempts share. */
  readonly messages: readonly ChatMessage[];
  readonly end: string;
  readonly turns: number;
}

/** A group as the judge sees it. */
export interface Comparison {
  /** Messages that all attempts begin with. */
  readonly prefix: readonly ChatMessage[];
  /** The different attempts: identical ones are merged. */
  readonly attempts: readonly Attempt[];
  /** For each trajectory of the group the index of its attempt. */
  readonly attemptOf: readonly number[];
}

type Judged = Pick<Trajectory, "messages" | "end" | "turns">;

/** Splits a group into the shared messages and each member's own. */
export function compareGroup(group: readonly Judged[]): Comparison {
  const keys = group.map(({ messages, end }) => toJson([messages, end]));
  const different = [...new Set(keys)];
  const unique = different.map((key) => group[keys.indexOf(key)] as Judged);
  const shared = sharedLength(unique.map(({ messages }) => messages));
  return {
    prefix: unique[0]?.messages.slice(0, shared) ?? [],
    attempts: unique.map(({ messages, end, turns }) => ({ messages: messages.slice(shared), end, turns })),
    attemptOf: keys.map((key) => different.indexOf(key)),
  };
}

/** Whether all attempts are identical. Then there is nothing to compare. */
export function allAlike(group: readonly Judged[]): boolean {
  return compareGroup(group).attempts.length < 2;
}

/** Number of messages that all begin with. Each keeps at least one of its own, where it has more than the prompt. */
function sharedLength(all: readonly (readonly ChatMessage[])[]): number {
  const [first = []] = all;
  const prompt = first.findIndex(({ role }) => role === "assistant");
  const opening = prompt < 0 ? first.length : prompt;
  if (all.length < 2) return opening;
  const most = Math.max(opening, Math.min(...all.map(({ length }) => length)) - 1);
  const same = (i: number) => new Set(all.map((messages) => toJson(messages[i] ?? null))).size === 1;
  let shared = 0;
  while (shared < most && same(shared)) shared++;
  return shared;
}

/** The text about a group, for one order of its attempts. */
export interface Material {
  readonly text: string;
  /** Characters left out of tool results. */
  readonly leftOut: number;
}

/** Tool results with fewer characters are never shortened. */
const LEAST = 120;

/**
 * @param order positions of attempts; the first of them is called "1"
 * @param budget estimated tokens of the whole question at most, `taken` of which are used already
 * @throws NoVerdict too_long when it does not fit even with the shortest tool results
 */
export function material(
  comparison: Comparison,
  order: readonly number[],
  tools: readonly ToolSchema[],
  budget: number,
  taken: number,
): Material {
  const whole = render(comparison, order, tools, Number.POSITIVE_INFINITY);
  if (taken + estimateTokens(whole.text) <= budget) return whole;
  let fits: Material | undefined;
  let [low, high] = [LEAST, whole.text.length];
  while (low <= high) {
    const middle = (low + high) >> 1;
    const tried = render(comparison, order, tools, middle);
    if (taken + estimateTokens(tried.text) <= budget) {
      fits = tried;
      low = middle + 1;
    } else high = middle - 1;
  }
  if (fits) return fits;
  const least = taken + estimateTokens(render(comparison, order, tools, LEAST).text);
  throw new NoVerdict(
    "too_long",
    `the group has about ${least} tokens with its tool results cut short, more than the ${budget} of --judge-input-tokens`,
  );
}

function render(
  comparison: Comparison,
  order: readonly number[],
  tools: readonly ToolSchema[],
  most: number,
): Material {
  let leftOut = 0;
  const line = (message: ChatMessage): string => {
    if (message.role !== "tool" || message.content.length <= most) return tagless(message);
    const { content, cut } = shorten(message.content, most);
    leftOut += cut;
    return tagless({ ...message, content });
  };
  const blocks = [
    ...(tools.length > 0 ? ["<tools>", ...tools.map((tool) => tagless(tool.function)), "</tools>", ""] : []),
    "<context>",
    ...comparison.prefix.map(line),
    "</context>",
    ...order.flatMap((position, index) => {
      const { messages, end, turns } = comparison.attempts[position] as Attempt;
      return [
        "",
        `<trajectory id="${index + 1}">`,
        ...messages.map(line),
        tagless({ ended: end, turns }),
        "</trajectory>",
      ];
    }),
  ];
  return { text: blocks.join("\n"), leftOut };
}

/** Keeps the beginning and the end of a tool result, with a note between them. */
function shorten(content: string, most: number): { content: string; cut: number } {
  const head = cutText(content, Math.ceil((2 * most) / 3));
  const tail = content.slice(content.length - Math.floor(most / 3)).replace(/^[\udc00-\udfff]/, "");
  const cut = content.length - head.length - tail.length;
  return { content: `${head} [... ${cut} characters of this result are left out here ...] ${tail}`, cut };
}
