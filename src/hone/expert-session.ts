/** The task's scripted expert as a player: it writes calls and texts, not tokens. */

import type { Session, Turn } from "../core/rollout/session.js";
import type {
  AnyTask,
  CallRecord,
  ChatMessage,
  ExpertHears,
  ExpertOptions,
  ExpertTurn,
  Scenario,
} from "../core/task/task.js";
import { HoneError } from "../core/util/errors.js";
import type { Random } from "../core/util/random.js";

export class ExpertSession implements Session {
  readonly #script: Generator<ExpertTurn, void, ExpertHears>;
  #results: ExpertHears = [];
  #started = false;

  /** @throws HoneError when the task has no expert */
  constructor(task: AnyTask, scenario: Scenario, random: Random, options: ExpertOptions) {
    if (!task.expert) throw new HoneError(`the task ${task.name} has no scripted expert; give a model with --model`);
    this.#script = task.expert(scenario, random, options);
  }

  async turn(): Promise<Turn> {
    // The first `next` runs the script up to its first turn; its argument is ignored.
    const step = this.#started ? this.#script.next(this.#results) : this.#script.next([]);
    this.#started = true;
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
    this.#script.return();
  }
}
