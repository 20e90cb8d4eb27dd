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
} from "../core/task/task.js";
import { HoneError } from "../core/util/errors.js";
import type { Random } from "../core/util/random.js";

export class ExpertSession implements Session {
  readonly #begin: () => ExpertScript | Promise<ExpertScript>;
  #script: ExpertScript | undefined;
  #results: ExpertHears = [];

  /** @throws HoneError when the task has no expert */
  constructor(task: AnyTask, scenario: Scenario, random: Random, options: ExpertOptions) {
    const { expert } = task;
    if (!expert) throw new HoneError(`the task ${task.name} has no scripted expert; give a model with --model`);
    this.#begin = () => expert.call(task, scenario, random, options);
  }

  async turn(): Promise<Turn> {
    this.#script ??= await this.#begin();
    const step = this.#script.next(this.#results);
    const turn = step.done ? [] : step.value;
    const { text, calls } =
      typeof turn === "string" ? { text: turn, calls: [] } : "text" in turn ? turn : { text: "", calls: turn };
    const written = calls.map((call) => ({ kind: "call" as const, call }));
    return { content: text, calls: written, completionTokens: 0, stop: "stop" };
  }

  respond(messages: readonly ChatMessage[], calls: readonly CallRecord[]): void {
    const reply = messages.find(({ role }) => role === "user")?.content;
    this.#results = Object.assign([...calls], reply === undefined ? {} : { reply });
  }

  tokens(): undefined {
    return undefined;
  }

  promptTokens(): number {
    return 0;
  }

  close(): void {
    this.#script?.return();
  }
}
