/** A conversation for people: messages, calls and results, and tokens coloured by their probability. */
import type { Trajectory } from "../../core/rollout/trajectory.js";
import type { CallRecord, ChatMessage } from "../../core/task/task.js";
import { toJson } from "../../core/util/json.js";
import { type Paint, painter, printable } from "../../core/util/text.js";
import { callsByMessage, failureOf } from "./calls.js";
import { shorten } from "./played.js";

/** Characters of one tool result that are shown at most. */
const SHOWN = 2_000;

function indent(text: string): string {
  return text.replace(/^/gm, "  ");
}

/** Green for tokens with a high probability, red for those with a low one. */
function byProbability(text: string, logprob: number, paint: Paint): string {
  if (logprob > -0.1) return paint("green", text);
  if (logprob > -1) return text;
  return paint(logprob > -3 ? "yellow" : "red", text);
}

/** Text of models and tools may contain terminal control codes. */
function messageText(message: ChatMessage, paint: Paint, records: readonly CallRecord[] = []): string {
  const content = printable(message.content);
  if (message.role === "tool")
    return `${paint("cyan", `⇐ ${printable(message.name) || "error"}`)}\n${indent(shorten(content, SHOWN))}`;
  if (message.role !== "assistant") return `${paint("bold", message.role)}\n${indent(content)}`;
  const calls = (message.tool_calls ?? []).map(
    (call) => `  ${paint("magenta", "⇒")} ${printable(`${call.name}(${toJson(call.arguments)})`)}`,
  );
  const said = content === "" ? [] : [indent(content)];
  const failures = records.flatMap((record) => {
    const failure = failureOf(record);
    const what = record.name === "" ? record.outcome : `${record.outcome} ${record.name}`;
    return failure === undefined ? [] : [`  ${paint("red", "⇏")} ${printable(`${what}: ${shorten(failure, SHOWN)}`)}`];
  });
  return [paint("bold", "assistant"), ...said, ...calls, ...failures].join("\n");
}

/** One message of a conversation, as {@link conversationText} shows it. */
export function messageLines(message: ChatMessage, useColours: boolean): string {
  return messageText(message, painter(useColours));
}

/**
 * @param detokenize when given, the sampled tokens are shown too, coloured by log-probability
 */
export function conversationText(
  trajectory: Trajectory,
  useColours: boolean,
  detokenize?: (ids: number[]) => string,
): string {
  const paint = painter(useColours);
  const { reward, tokens, agent: asked } = trajectory;
  const calls = callsByMessage(trajectory);
  const parts = Object.entries(reward.parts).map(([name, value]) => `${name} ${Number(value.toFixed(3))}`);
  const blocks = [
    paint(["bold", "inverse"], ` ${printable(trajectory.id)} `),
    ...trajectory.messages.map((message, at) => messageText(message, paint, calls[0]?.get(at))),
    ...(trajectory.branches ?? []).flatMap(({ messages }, index) => [
      paint("bold", `sequence ${index + 2}`),
      ...messages.map((message, at) => indent(messageText(message, paint, calls[index + 1]?.get(at)))),
    ]),
    ...(asked?.base_calls === undefined
      ? []
      : [
          `${paint("bold", "not trained")}: ${asked.base_calls} turns of the frozen base, which read ${asked.base_prompt_tokens} tokens and wrote ${asked.base_completion_tokens}`,
        ]),
    ...(trajectory.output ? [`${paint("bold", "the agent's output")}\n${indent(printable(trajectory.output))}`] : []),
  ];
  if (tokens && detokenize && useColours) {
    const sampled = tokens.ids.map((id, i) =>
      tokens.sampled[i] === 1
        ? byProbability(printable(detokenize([id])), tokens.logprobs[i] as number, paint)
        : tokens.sampled[i - 1] === 1
          ? "\n"
          : "",
    );
    blocks.push(`${paint("bold", "sampled tokens")}\n${indent(sampled.join("").trimEnd())}`);
  }
  const verdict = reward.success ? paint("green", "solved") : paint("red", "not solved");
  const why = trajectory.reason ? ` (${printable(trajectory.reason)})` : "";
  blocks.push(
    `${verdict}: ${trajectory.end}${why} after ${trajectory.turns} turns, reward ${Number(reward.reward.toFixed(3))}` +
      (parts.length > 0 ? ` (${parts.join(", ")})` : ""),
  );
  return `${blocks.join("\n")}\n`;
}
