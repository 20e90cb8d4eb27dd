/** The task's scripted expert as a player: it writes calls and texts, not tokens. */

import type { Session, Turn } from "../core/rollout/session.js";
import type {
  AnyTask,
  CallRecord,
  ChatMessage,
  ExpertHears,
  ExpertOptions,
  ExpertScript,
  Scenario,
  ToolCall,
} from "../core/task/task.js";
import { HoneError } from "../core/util/errors.js";
import type { Random } from "../core/util/random.js";

const FORMS = "a list of calls, [{ name, arguments }], a text, or { text, calls }";

export class ExpertSession implements Session {
  readonly #name: string;
  readonly #begin: () => ExpertScript | Promise<ExpertScript>;
  #script: ExpertScript | undefined;
  #results: ExpertHears = [];

  /** @throws HoneError when the task has no expert */
  constructor(task: AnyTask, scenario: Scenario, random: Random, options: ExpertOptions) {
    const { expert } = task;
    if (!expert) throw new HoneError(`the task ${task.name} has no scripted expert; give a model with --model`);
    this.#name = task.name;
    this.#begin = () => expert.call(task, scenario, random, options);
  }

  async turn(): Promise<Turn> {
    this.#script ??= await this.#begin();
    // A task file runs without a check of its types.
    const script = Object(this.#script);
    if (!(Symbol.iterator in script && "next" in script))
      throw new HoneError(
        `the expert of task ${this.#name} is no generator: write *expert(...), which yields ${FORMS}`,
      );
    const step = this.#script.next(this.#results);
    const turn = step.done ? [] : step.value;
    const { text, calls } =
      typeof turn === "string"
        ? { text: turn, calls: [] }
        : Array.isArray(turn)
          ? { text: "", calls: turn }
          : (turn as Partial<{ text: string; calls: ToolCall[] }>);
    if (typeof text !== "string" || !Array.isArray(calls))
      throw new HoneError(`the expert of task ${this.#name} must yield ${FORMS}`);
    const written = calls.map((call) => ({ kind: "call" as const, call }));
    return { content: text, calls: written, completionTokens: 0, stop: "stop" };
  }

  respond(messages: readonly ChatMessage[], calls: readonly CallRecord[]): void {
    const reply = messages.find(({ role }) => role === "user")?.content;
    this.#results = Object.assign([...calls], reply === undefined ? {} : { reply });
  }

  close(): void {
    this.#script?.return();
  }
}
