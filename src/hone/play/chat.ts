/**
 * Chat between a person and models that have a task's tools. The tools run as in a rollout, with the task's
 * environment, and every call is shown with its result. There is no reward. With several models each gets the same
 * lines in a conversation of its own.
 */

import { OutOfTime, runCall, ToolFailure } from "../../core/rollout/calls.js";
import { assistantMessage, opening, type RolloutLimits } from "../../core/rollout/rollout.js";
import type { Opening, Session, Turn } from "../../core/rollout/session.js";
import type { AnyTask, CallRecord, ChatMessage, Scenario } from "../../core/task/task.js";
import { messageLines } from "../../insight/report/conversation.js";
import type { Terminal } from "./person-session.js";

export interface Speaker {
  readonly name: string;
  open(opening: Opening): Session;
}

export interface ChatOptions {
  readonly task: AnyTask;
  readonly scenario: Scenario;
  readonly env: unknown;
  readonly speakers: readonly Speaker[];
  /** `maxTurns`: consecutive turns before the model must answer in text, at most. */
  readonly limits: Pick<RolloutLimits, "maxTurns" | "maxTokens" | "turnSeconds" | "toolSeconds">;
  readonly terminal: Terminal;
  readonly useColours: boolean;
  readonly signal: AbortSignal;
  /** Shows that a model writes, until what it returns is called. */
  readonly writing: () => () => void;
}

/** Printed after a turn that was cut off. */
const cut = {
  length: "(cut at --max-tokens)",
  deadline: "(cut at --turn-timeout)",
  context: "(no room is left in the context; --context makes it larger)",
} as const;

class Conversation {
  readonly #options: ChatOptions;
  readonly #speaker: Speaker;
  readonly name: string;
  readonly messages: ChatMessage[] = [];
  #session: Session | undefined;
  /** Messages not yet sent to the model, or not yet answered by it. */
  #pending: ChatMessage[] = [];
  #turns = 0;
  /** Whether the context is full. */
  full = false;

  constructor(speaker: Speaker, options: ChatOptions) {
    this.#speaker = speaker;
    this.name = speaker.name;
    this.#options = options;
  }

  /** @param text undefined for the task's own question */
  async onMessage(text: string | undefined): Promise<void> {
    if (this.#session) this.#continue(this.#session, text ?? "");
    else this.#begin(text);
    await this.#answer(this.#session as Session);
  }

  #begin(text: string | undefined): void {
    const { task, scenario, limits } = this.#options;
    const { messages, tools } = opening(task, scenario, limits.maxTurns);
    const asked = messages.findLastIndex(({ role }) => role === "user");
    const said: ChatMessage[] =
      text === undefined ? [] : [{ role: "user", content: asking(text, scenario.question, messages[asked]) }];
    this.messages.push(...(said.length > 0 && asked >= 0 ? messages.slice(0, asked) : messages), ...said);
    this.#session = this.#speaker.open({ messages: [...this.messages], tools });
  }

  #continue(session: Session, text: string): void {
    const said: ChatMessage = { role: "user", content: text };
    this.#pending = [...this.#pending, said];
    session.respond(this.#pending, []);
    this.messages.push(said);
  }

  #show(message: ChatMessage): void {
    this.messages.push(message);
    this.#options.terminal.show(messageLines(message, this.#options.useColours));
  }

  async #answer(session: Session): Promise<void> {
    const { limits, signal, terminal, writing } = this.#options;
    for (let taken = 0; taken < limits.maxTurns; taken++) {
      const written = writing();
      const turn = await session
        .turn({ maxTokens: limits.maxTokens, seconds: limits.turnSeconds, signal })
        .finally(written);
      this.#turns++;
      this.full = turn.stop === "context";
      if (turn.completionTokens > 0) {
        this.#pending = [];
        this.#show(assistantMessage(turn));
      } else if (this.#turns === 1 && turn.stop !== "stop") this.#startAgain();
      if (turn.stop !== "stop") terminal.print(cut[turn.stop]);
      if (turn.stop !== "stop" || turn.calls.length === 0) return;
      const { records, responses, answered } = await this.#run(turn);
      this.#pending = responses;
      // The result of an answer is sent with the person's next line.
      if (answered) return;
      session.respond(responses, records);
    }
    terminal.print(`(${limits.maxTurns} turns without an answer: --max-turns)`);
  }

  /** Resets a conversation whose first turn had no tokens: the next line begins it again. */
  #startAgain(): void {
    this.close();
    this.#session = undefined;
    this.messages.length = 0;
    this.#turns = 0;
  }

  /** Runs the calls of a turn, up to the first that answers. */
  async #run(turn: Turn) {
    const { task } = this.#options;
    const records: CallRecord[] = [];
    const responses: ChatMessage[] = [];
    let answered = false;
    for (const written of turn.calls) {
      const id = written.kind === "call" ? written.call.id : written.id;
      let name = written.kind === "call" ? written.call.name : "";
      let content: string;
      try {
        const { record, text } = await runCall(written, this.#turns, this.#options);
        records.push(record);
        name = record.name;
        content = text;
        answered = record.outcome === "ok" && task.tools.some((tool) => tool.final && tool.name === name);
      } catch (error) {
        if (!(error instanceof ToolFailure || error instanceof OutOfTime)) throw error;
        // Would end a rollout. Here the error is shown as the result and the chat goes on.
        content = JSON.stringify({ error: error.message });
      }
      const response: ChatMessage = { role: "tool", name, content, ...(id === undefined ? {} : { id }) };
      responses.push(response);
      this.#show(response);
      if (answered) break;
    }
    return { records, responses, answered };
  }

  close(): void {
    this.#session?.close();
  }
}

/** A person's words in the place of the task's question: what the prompt says around it stays. */
function asking(text: string, question: string, message: ChatMessage | undefined): string {
  const whole = message?.content;
  return question !== "" && whole?.includes(question) ? whole.replace(question, () => text) : text;
}

/** Runs until the person ends it, the signal is aborted, or every model's context is full. */
export async function chat(options: ChatOptions) {
  const { task, scenario, speakers, limits, terminal, signal, useColours } = options;
  const conversations = speakers.map((speaker) => new Conversation(speaker, options));
  const first = opening(task, scenario, limits.maxTurns).messages;
  // The question is named below; user messages before it belong to the prompt's worked examples.
  const asked = first.findLastIndex(({ role }) => role === "user");
  for (const message of first.filter((_, i) => i !== asked)) terminal.show(messageLines(message, useColours));
  terminal.print(`Say something, or quit. An empty line asks: ${scenario.question}`);
  try {
    for (let begun = false; ; begun = true) {
      const line = await terminal.ask();
      if (line === undefined || line.trim() === "quit") break;
      if (begun && line.trim() === "") continue;
      for (const conversation of conversations.filter(({ full }) => !full)) {
        if (conversations.length > 1) terminal.print(`— ${conversation.name}`);
        await conversation.onMessage(line.trim() === "" ? undefined : line);
      }
      if (conversations.every(({ full }) => full)) break;
    }
  } catch (error) {
    // Ctrl-C during a turn is a normal way to leave.
    if (!signal.aborted) throw error;
  } finally {
    for (const conversation of conversations) conversation.close();
  }
  return conversations.map(({ name, messages }) => ({ name, messages }));
}
