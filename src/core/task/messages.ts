/** What a task returned as the beginning of a conversation, checked before a chat template reads it. */
import { HoneError } from "../util/errors.js";
import { copied } from "../util/json.js";
import type { AnyTask, ChatMessage, Scenario } from "./task.js";

const ROLES: readonly ChatMessage["role"][] = ["system", "user", "assistant", "tool"];

/** OpenAI's newer role, and a content of texts, as every template reads them. */
function plain(message: unknown): unknown {
  if (typeof message !== "object" || message === null) return message;
  const { role, content } = message as { role?: unknown; content?: unknown };
  const texts =
    Array.isArray(content) && content.every((part) => part?.type === "text" && typeof part.text === "string");
  return {
    ...message,
    ...(role === "developer" ? { role: "system" } : {}),
    ...(texts ? { content: content.map(({ text }) => text).join("") } : {}),
  };
}

function problemOf(message: Partial<ChatMessage> | null | undefined): string | undefined {
  if (typeof message !== "object" || message === null) return "is no object with a role and a content";
  const { role, content } = message as { role?: unknown; content?: unknown };
  if (!ROLES.includes(role as ChatMessage["role"]))
    return `has the role ${JSON.stringify(role)}, which is none of ${ROLES.join(", ")}`;
  if (typeof content === "string") return undefined;
  if (content !== undefined && content !== null)
    return `has ${JSON.stringify(content)} as its content, which is no text`;
  // A turn of calls alone.
  return "tool_calls" in message && message.tool_calls ? undefined : "has no content";
}

/**
 * The messages before the model's first turn.
 *
 * @throws HoneError where a message has no text
 */
export function promptOf(task: AnyTask, scenario: Scenario, limits: { maxTurns: number }): ChatMessage[] {
  const returned: unknown = task.prompt(copied(scenario), limits);
  if (!Array.isArray(returned))
    throw new HoneError(`scenario ${scenario.id}: the prompt is no list of messages; return [{ role, content }, ...]`);
  if (returned.length === 0)
    throw new HoneError(`scenario ${scenario.id}: the prompt is empty; return [{ role, content }, ...]`);
  const messages = returned.map(plain) as ChatMessage[];
  for (const [index, message] of messages.entries()) {
    const problem = problemOf(message);
    if (problem !== undefined)
      throw new HoneError(`scenario ${scenario.id}: message ${index + 1} of the prompt ${problem}`);
  }
  return messages;
}
