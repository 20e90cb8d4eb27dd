/** Tells of a model whose turns have no calls, and of the format by which they would have some. */
import { formats } from "../../chat/formats/formats.js";
import { withoutThoughts } from "../../core/rollout/thoughts.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import type { ToolSchema } from "../../core/task/task.js";

type ReadTrajectory = Pick<Trajectory, "messages" | "turns" | "calls"> & {
  readonly player: Pick<Trajectory["player"], "kind">;
  readonly reward: Pick<Trajectory["reward"], "success">;
};

interface Reading {
  turns: number;
  /** Characters that are left beside the calls. */
  left: number;
}

export class UnreadCalls {
  readonly #tools: readonly ToolSchema["function"][];
  readonly #readings = new Map<string, Reading>();
  #turns = 0;
  #calling = 0;
  #solved = false;

  /** @param tools those that the model is shown; without any there is nothing to tell */
  constructor(tools: readonly ToolSchema[]) {
    this.#tools = tools.map((tool) => tool.function);
  }

  add({ messages, turns, calls, player, reward }: ReadTrajectory): void {
    if (player.kind !== "engine" || this.#tools.length === 0) return;
    this.#solved ||= reward.success;
    const calling = new Set(calls.map(({ turn }) => turn));
    // Before them there may be worked examples of the prompt.
    const said = messages.filter((message) => message.role === "assistant");
    for (const [index, message] of said.slice(said.length - turns).entries()) {
      if (calling.has(index + 1) || message.tool_calls) this.#calling++;
      else this.#read(withoutThoughts(message.content));
      this.#turns++;
    }
  }

  #read(text: string): void {
    for (const { name, read } of formats) {
      const { calls, content } = read(text, this.#tools);
      const isSound = calls.every(
        (one) => one.kind === "call" && this.#tools.some((tool) => tool.name === one.call.name),
      );
      if (calls.length === 0 || !isSound) continue;
      const reading = this.#readings.get(name) ?? { turns: 0, left: 0 };
      this.#readings.set(name, { turns: reading.turns + 1, left: reading.left + content.length });
    }
  }

  /** The format that reads most turns; of several the one that leaves least beside calls, and json, which is no model's own. */
  get format(): string | undefined {
    const ofModels = (name: string) => Number(name !== "json");
    const [best] = formats
      .flatMap(({ name }) => ({ name, ...(this.#readings.get(name) ?? { turns: 0, left: 0 }) }))
      .sort((a, b) => b.turns - a.turns || a.left - b.left || ofModels(a.name) - ofModels(b.name));
    return best && best.turns > this.#calling ? best.name : undefined;
  }

  /** Undefined where there is nothing to tell: calls, or rollouts that solved their scenario without one. */
  text(): string | undefined {
    const format = this.format;
    if (this.#turns === 0 || (format === undefined && (this.#calling > 0 || this.#solved))) return undefined;
    const what =
      this.#calling === 0
        ? `no tool call in any of ${this.#turns} turns`
        : `tool calls in ${this.#calling} of ${this.#turns} turns`;
    if (format === undefined) return `${what}, in none of the formats that hone reads`;
    const turns = this.#readings.get(format)?.turns;
    return `${what}; --tool-format ${format} reads calls in ${turns} ${this.#calling === 0 ? "of them" : "others"}`;
  }
}
