/** The email task as an agent's: its tools, when it has ended, and its reward, whoever asks the model. */
import { z } from "zod";
import { runCall } from "../../src/core/rollout/calls.js";
import { opening } from "../../src/core/rollout/rollout.js";
import { type AnyTask, type CallRecord, defineTask, type Scenario } from "../../src/core/task/task.js";
import { emailTask } from "../../src/email/email-task.js";

/** Of the comparison, on both sides. */
export const MAX_TURNS = 10;

const task = emailTask as unknown as AnyTask;
const final = task.tools.find((tool) => tool.final)?.name;

/** One rollout's calls; `over` when the built-in loop would have ended. */
export class Mailbox {
  readonly messages: ReturnType<typeof opening>["messages"];
  readonly tools: ReturnType<typeof opening>["tools"];
  readonly records: CallRecord[] = [];
  over = false;
  turns = 0;

  constructor(
    readonly scenario: Scenario,
    readonly env: unknown,
    readonly signal: AbortSignal,
  ) {
    const { messages, tools } = opening(task, scenario, MAX_TURNS);
    this.messages = messages;
    this.tools = tools;
  }

  async call(name: string, args: Record<string, unknown>): Promise<string> {
    const { scenario, env, signal } = this;
    const running = { task, scenario, env, signal, limits: { maxTurns: MAX_TURNS, toolSeconds: 30 } };
    const written = { kind: "call" as const, call: { name, arguments: args } };
    const { record, text } = await runCall(written, this.turns, running);
    this.records.push(record);
    if (["unknown_tool", "bad_arguments"].includes(record.outcome)) this.over = true;
    if (name === final && record.outcome === "ok") this.over = true;
    return text;
  }

  /** Whether the last call gave an answer. */
  get answered(): boolean {
    const last = this.records.at(-1);
    return last?.name === final && last?.outcome === "ok";
  }

  reward() {
    const calls = this.records;
    return task.reward(
      {
        messages: [],
        calls,
        turns: this.turns,
        maxTurns: MAX_TURNS,
        end: this.answered ? "answered" : "no_tool_call",
        answer: this.answered ? calls.at(-1)?.arguments : undefined,
      },
      this.scenario,
      this.env,
    );
  }
}

/** The email task, played by a function. */
export const mailAgent = (
  name: string,
  play: (mailbox: Mailbox, model: { baseUrl: string; apiKey: string; model: unknown }) => Promise<void>,
) =>
  defineTask({
    name,
    options: z.object({ db: z.string() }),
    scenarios: (options) => task.scenarios({ ...options, rank: "date" }) as never,
    open: (options) => task.open({ ...options, rank: "date" }),
    close: (env) => task.close?.(env),
    rollout: async ({ scenario, env, signal, baseUrl, apiKey, model }) => {
      const mailbox = new Mailbox(scenario, env, signal);
      await play(mailbox, { baseUrl, apiKey, model });
      return mailbox.reward();
    },
  });
