/** A conversation for people: messages, calls and results, and tokens coloured by their probability. */
import pc from "picocolors";
import type { Trajectory } from "../rollout/index.js";
import type { ChatMessage } from "../tasks/index.js";
import { printable, toJson } from "../util/index.js";

type Colours = ReturnType<typeof pc.createColors>;

/** Characters of one tool result that are shown at most. */
const SHOWN = 2_000;

function indent(text: string): string {
  return text.replace(/^/gm, "  ");
}

function shorten(text: string): string {
  return text.length <= SHOWN ? text : `${text.slice(0, SHOWN)} … (${text.length - SHOWN} more characters)`;
}

/** Green for tokens with a high probability, red for those with a low one. */
function colourOf(logprob: number, colours: Colours): (text: string) => string {
  if (logprob > -0.1) return colours.green;
  if (logprob > -1) return (text) => text;
  return logprob > -3 ? colours.yellow : colours.red;
}

/** Text of models and tools may contain terminal control codes. */
function messageText(message: ChatMessage, colours: Colours): string {
  const content = printable(message.content);
  if (message.role === "tool")
    return `${colours.cyan(`⇐ ${printable(message.name) || "error"}`)}\n${indent(shorten(content))}`;
  if (message.role !== "assistant") return `${colours.bold(message.role)}\n${indent(content)}`;
  const calls = (message.tool_calls ?? []).map(
    (call) => `  ${colours.magenta("⇒")} ${printable(`${call.name}(${toJson(call.arguments)})`)}`,
  );
  const said = content === "" ? [] : [indent(content)];
  return [colours.bold("assistant"), ...said, ...calls].join("\n");
}

/** One message of a conversation, as {@link conversationText} shows it. */
export function messageLines(message: ChatMessage, useColours: boolean): string {
  return messageText(message, pc.createColors(Boolean(useColours)));
}

/**
 * @param detokenize when given, the sampled tokens are shown too, coloured by log-probability
 */
export function conversationText(
  trajectory: Trajectory,
  useColours: boolean,
  detokenize?: (ids: number[]) => string,
): string {
  // A stream that is no terminal has no `isTTY` at all, and picocolors takes undefined for "detect it".
  const colours = pc.createColors(Boolean(useColours));
  const { reward, tokens } = trajectory;
  const parts = Object.entries(reward.parts).map(([name, value]) => `${name} ${Number(value.toFixed(3))}`);
  const blocks = [
    colours.bold(colours.inverse(` ${printable(trajectory.id)} `)),
    ...trajectory.messages.map((message) => messageText(message, colours)),
    ...(trajectory.branches ?? []).flatMap(({ messages }, index) => [
      colours.bold(`sequence ${index + 2}`),
      ...messages.map((message) => indent(messageText(message, colours))),
    ]),
    ...(trajectory.output ? [`${colours.bold("the agent's output")}\n${indent(printable(trajectory.output))}`] : []),
  ];
  if (tokens && detokenize && useColours) {
    const sampled = tokens.ids.map((id, i) =>
      tokens.sampled[i] === 1
        ? colourOf(tokens.logprobs[i] as number, colours)(printable(detokenize([id])))
        : tokens.sampled[i - 1] === 1
          ? "\n"
          : "",
    );
    blocks.push(`${colours.bold("sampled tokens")}\n${indent(sampled.join("").trimEnd())}`);
  }
  const verdict = reward.success ? colours.green("solved") : colours.red("not solved");
  const why = trajectory.reason ? ` (${printable(trajectory.reason)})` : "";
  blocks.push(
    `${verdict}: ${trajectory.end}${why} after ${trajectory.turns} turns, reward ${Number(reward.reward.toFixed(3))}` +
      (parts.length > 0 ? ` (${parts.join(", ")})` : ""),
  );
  return `${blocks.join("\n")}\n`;
}
