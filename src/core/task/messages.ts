/** What a task returned as the beginning of a conversation, checked before a chat template reads it. */
import { HoneError } from "../util/errors.js";
import type { AnyTask, ChatMessage, Scenario } from "./task.js";

function problemOf(message: Partial<ChatMessage> | null | undefined): string | undefined {
  if (typeof message !== "object" || message === null) return "is no object with a role and a content";
  const { content } = message as { content?: unknown };
  if (typeof content === "string" || Array.isArray(content)) return undefined;
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
  const messages: unknown = task.prompt(scenario, limits);
  if (!Array.isArray(messages))
    throw new HoneError(`scenario ${scenario.id}: the prompt is no list of messages; return [{ role, content }, ...]`);
  if (messages.length === 0)
    throw new HoneError(`scenario ${scenario.id}: the prompt is empty; return [{ role, content }, ...]`);
  for (const [index, message] of messages.entries()) {
    const problem = problemOf(message);
    if (problem !== undefined)
      throw new HoneError(`scenario ${scenario.id}: message ${index + 1} of the prompt ${problem}`);
  }
  return messages as ChatMessage[];
}
