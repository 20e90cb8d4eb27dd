/** What a model did in a conversation, to show what training changed; lines of a width. */
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { toJson } from "../../core/util/json.js";
import { cutText } from "../../core/util/text.js";
import { compact } from "./progress-line.js";

/** Characters of one tool result that are shown at most. */
const SHOWN = 480;

/** Breaks text into lines of at most `width` characters, at spaces where possible. */
export function wrap(text: string, width: number): string[] {
  return text.split("\n").flatMap((line) => {
    const indent = " ".repeat(Math.min(line.length - line.trimStart().length + 2, Math.floor(width / 2)));
    const lines: string[] = [];
    let rest = line;
    while (rest.length > width) {
      const space = rest.lastIndexOf(" ", width);
      const end = space > width / 2 ? space : width;
      lines.push(rest.slice(0, end).trimEnd());
      rest = indent + rest.slice(end).trimStart();
    }
    return [...lines, rest];
  });
}

export function shorten(text: string, most: number): string {
  const cut = cutText(text, most);
  return cut === text ? text : `${cut} … (${text.length - cut.length} more characters)`;
}

function inOneLine(text: string): string {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length <= SHOWN ? line : `${line.slice(0, SHOWN)} …`;
}

/** The model's part of a conversation: calls, results, end. */
export function playedText({ messages, end, reason, turns, reward }: Trajectory): string {
  const asked = messages.findIndex(({ role }) => role === "assistant");
  const lines = (asked < 0 ? [] : messages.slice(asked)).flatMap((message) => {
    if (message.role !== "assistant") return [`  ${inOneLine(message.content)}`];
    const calls = (message.tool_calls ?? []).map(
      ({ name, arguments: given }) => `▸ ${name} ${inOneLine(toJson(given))}`,
    );
    return message.content.trim() === "" ? calls : [`▸ ${inOneLine(message.content)}`, ...calls];
  });
  const verdict = reward.success ? "✓ solved" : "✗ not solved";
  return [
    ...lines,
    `${verdict}: ${end}${reason ? ` (${reason})` : ""} after ${turns} turns, reward ${compact(reward.reward)}`,
  ].join("\n");
}
