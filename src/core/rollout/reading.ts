/** What a turn of the engine's model says: its calls, and the text without its thoughts. */
import type { ToolSchema } from "../task/task.js";
import type { ConversationFormat, WrittenCall } from "./conversation.js";
import type { Turn } from "./session.js";
import { splitThoughts } from "./thoughts.js";

/** An id in the form that Mistral's templates demand: nine letters or digits. */
export const callId = (number: number) => String(number).padStart(9, "0");

/** A call's own id if every template accepts it. */
export const usableId = (id: string | undefined) => (id !== undefined && /^[a-zA-Z0-9]{9}$/.test(id) ? id : undefined);

export interface ReadTurn extends Required<Pick<Turn, "content" | "said" | "calls">> {
  /** With their marks; "" where there are none. */
  readonly thoughts: string;
}

/**
 * Calls are read from what follows the thoughts; where there are no tools, all is text.
 *
 * @param text as it was sampled, without the token that ended the turn
 * @param tools those that the prompt has shown
 */
export function readTurn(
  { marks, opened, format }: ConversationFormat,
  text: string,
  tools: readonly ToolSchema[],
): ReadTurn {
  const { thoughts, said } = splitThoughts(text, marks, opened);
  if (tools.length === 0 || !format) return { thoughts, content: text.trim(), said: said.trim(), calls: [] };
  const { content, calls } = format.read(
    said,
    tools.map((tool) => tool.function),
  );
  const between = thoughts && content ? /^\s*/.exec(said)?.[0] : "";
  return { thoughts, content: `${thoughts}${between}${content}`.trim(), said: content, calls };
}

/**
 * Calls with ids: those that the model wrote where they are usable, else their numbers.
 *
 * @param before calls of the conversation's earlier turns
 */
export function withIds(calls: readonly WrittenCall[], before: number): WrittenCall[] {
  return calls.map((written, index) => {
    const number = callId(before + index + 1);
    if (written.kind === "malformed") return { ...written, id: number };
    return { ...written, call: { ...written.call, id: usableId(written.call.id) ?? number } };
  });
}

/** Ids that end a turn. */
export const stopIds = (chat: ConversationFormat, endTokens: readonly number[]) => [
  ...new Set([...chat.closing, ...endTokens]),
];
