/** Tells of a model whose turns have no calls, and of the format by which they would have some. */
import { formats } from "../../chat/formats/formats.js";
import { withoutThoughts } from "../../core/rollout/thoughts.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import type { ToolSchema } from "../../core/task/task.js";

type ReadTrajectory = Pick<Trajectory, "messages" | "turns" | "calls"> & {
  readonly player: Pick<Trajectory["player"], "kind">;
  readonly reward: Pick<Trajectory["reward"], "success">;
};

/** What is told, and the format that reads more turns than have calls; undefined where there is none. */
export interface UnreadCalls {
  readonly text: string | undefined;
  readonly format: string | undefined;
}

/** The format that reads most of the texts; of several the one that leaves least beside calls, and json, which is no model's own. */
function bestFormat(texts: readonly string[], tools: readonly ToolSchema["function"][]) {
  const ofModels = (name: string) => Number(name !== "json");
  const readings = formats.map(({ name, read }) => {
    const sound = texts
      .map((text) => read(text, tools))
      .filter(
        ({ calls }) =>
          calls.length > 0 &&
          calls.every((one) => one.kind === "call" && tools.some((tool) => tool.name === one.call.name)),
      );
    return { name, turns: sound.length, left: sound.reduce((sum, { content }) => sum + content.length, 0) };
  });
  return readings.sort((a, b) => b.turns - a.turns || a.left - b.left || ofModels(a.name) - ofModels(b.name))[0];
}

/**
 * Nothing is told where there are calls, and of rollouts that solved their scenario without one.
 * @param schemas tools that the model is shown; without any there is nothing to tell
 */
export function unreadCalls(schemas: readonly ToolSchema[], rollouts: readonly ReadTrajectory[]): UnreadCalls {
  const tools = schemas.map((tool) => tool.function);
  const played = tools.length === 0 ? [] : rollouts.filter(({ player }) => player.kind === "engine");
  const turns = played.flatMap(({ messages, turns, calls }) => {
    const calling = new Set(calls.map(({ turn }) => turn));
    // Before them there may be worked examples of the prompt.
    const said = messages.filter((message) => message.role === "assistant");
    return said.slice(said.length - turns).map(({ content, tool_calls }, index) => ({
      content,
      isCalling: calling.has(index + 1) || tool_calls !== undefined,
    }));
  });
  const silent = turns.filter(({ isCalling }) => !isCalling).map(({ content }) => withoutThoughts(content));
  const calling = turns.length - silent.length;
  const best = bestFormat(silent, tools);
  const format = best && best.turns > calling ? best : undefined;
  const isSolved = played.some(({ reward }) => reward.success);
  if (turns.length === 0 || (!format && (calling > 0 || isSolved))) return { text: undefined, format: undefined };
  const what =
    calling === 0
      ? `no tool call in any of ${turns.length} turns`
      : `tool calls in ${calling} of ${turns.length} turns`;
  if (!format) return { text: `${what}, in none of the formats that hone reads`, format: undefined };
  const others = calling === 0 ? "of them" : "others";
  return {
    text: `${what}; --tool-format ${format.name} reads calls in ${format.turns} ${others}`,
    format: format.name,
  };
}
