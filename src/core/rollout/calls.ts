/** Runs the task's own code in a rollout, its tools and replies, under their deadlines. */

import { checkArguments, parameterNames } from "../task/parameters.js";
import {
  type AnyTask,
  type CallOutcome,
  type CallRecord,
  type ReplyContext,
  type Scenario,
  type ToolContext,
  ToolError,
} from "../task/task.js";
import { messageOf } from "../util/errors.js";
import { copied, hasBigint, parseJson, toJson } from "../util/json.js";
import { anyOf } from "../util/signals.js";
import { awakeTime, TimeLimit } from "../util/time-limit.js";
import { guarded } from "../util/watch.js";
import type { WrittenCall } from "./conversation.js";
import { badArguments, unknownTool } from "./refusals.js";

/** Limit of one tool result in characters; a longer one is a defect of the tool. */
const MAX_RESULT_CHARS = 1_000_000;

/** The rollout that the code runs for. */
export interface Running {
  readonly task: AnyTask;
  readonly scenario: Scenario;
  readonly env: unknown;
  readonly limits: { readonly maxTurns: number; readonly toolSeconds: number };
  readonly signal: AbortSignal;
  /** Aborted when the rollout's time is over; undefined where it has no limit. */
  readonly over?: AbortSignal | undefined;
}

/** The tool itself failed or hung, which is not the model's fault. */
export class ToolFailure extends Error {}

/** The rollout's time was over before a tool had ended. */
export class OutOfTime extends Error {}

/** Result of a call: the record, and the text for the model. */
export interface Answered {
  record: CallRecord;
  text: string;
}

/** Runs one written call. Throws {@link ToolFailure} and {@link OutOfTime}. */
export async function runCall(written: WrittenCall, turn: number, input: Running): Promise<Answered> {
  const refused = (name: string, args: Record<string, unknown>, outcome: CallOutcome, error: string): Answered => ({
    record: { turn, name, arguments: args, outcome, result: { error } },
    text: JSON.stringify({ error }),
  });
  if (written.kind === "malformed") return refused("", {}, "malformed", written.reason);

  const { name, arguments: args } = written.call;
  const { tools } = input.task;
  const tool = tools.find((candidate) => candidate.name === name);
  if (!tool) {
    const names = tools.map((candidate) => candidate.name);
    const { outcome, error } = unknownTool(name, names);
    return refused(name, args, outcome, error);
  }
  const checked = checkArguments(tool.parameters, args);
  if ("problem" in checked) {
    const { outcome, error } = badArguments(name, checked.problem, parameterNames(tool.parameters));
    return refused(name, args, outcome, error);
  }
  try {
    const run = (context: ToolContext) => tool.execute(copied(checked.args), context);
    const result = (await execute(`the tool ${name}`, run, input)) ?? null;
    // A copy: a tool may return what it goes on changing.
    const copy: unknown = typeof result === "string" ? result : parseJson(toJson(result));
    return {
      record: { turn, name, arguments: checked.args, outcome: "ok", result: copy },
      text: resultText(name, result),
    };
  } catch (error) {
    if (error instanceof ToolError) return refused(name, checked.args, "tool_error", error.message);
    if (error instanceof ToolFailure || error instanceof OutOfTime) throw error;
    // Arithmetic and JSON.stringify refuse bigints: the model has written what this tool does not take.
    if (error instanceof TypeError && hasBigint(checked.args)) {
      return refused(
        name,
        checked.args,
        "bad_arguments",
        `${name} takes no integers beyond ${Number.MAX_SAFE_INTEGER}`,
      );
    }
    throw new ToolFailure(`the tool ${name} failed: ${messageOf(error)}`, { cause: error });
  }
}

/** The text of a result for the model: a string unchanged, anything else as JSON. */
function resultText(name: string, result: unknown): string {
  const text = typeof result === "string" ? result : toJson(result);
  if (text.length > MAX_RESULT_CHARS) {
    const millions = (text.length / 1e6).toFixed(1);
    throw new ToolFailure(
      `the tool ${name} returned ${millions} million characters; let it return at most ${MAX_RESULT_CHARS / 1e6} million`,
    );
  }
  return text;
}

/** Runs a function of the task under a tool's time limit, the rollout's and its signal. */
async function execute(name: string, run: (context: ToolContext) => unknown, input: Running): Promise<unknown> {
  const { scenario, env, signal, over, limits } = input;
  const began = awakeTime();
  const within = `within ${limits.toolSeconds.toFixed(1)} seconds`;
  using limit = new TimeLimit(limits.toolSeconds, () => new ToolFailure(`${name} did not return ${within}`));
  using end = anyOf([signal, limit.signal, ...(over ? [over] : [])]);
  const reason = () => {
    if (!over?.aborted || signal.aborted) return end.signal.reason;
    const seconds = ((awakeTime() - began) / 1000).toFixed(1);
    return new OutOfTime(`the rollout's time was over after ${seconds} seconds of ${name}`);
  };
  if (end.signal.aborted) throw reason();
  const ended = new Promise<never>((_, reject) => {
    end.signal.addEventListener("abort", () => reject(reason()), { once: true });
  });
  const allowed = { what: name, seconds: limits.toolSeconds, remedy: "--tool-timeout" };
  // What is over time is no longer watched: a tool that never returns does not block the thread.
  return await guarded(name, () => Promise.race([run({ scenario, env, signal: end.signal }), ended]), allowed);
}

/** The task's reply to a turn of plain text. Throws as {@link runCall}. */
export async function replyTo(
  text: string,
  so: Pick<ReplyContext, "messages" | "calls" | "turns">,
  input: Running,
): Promise<string | null> {
  const { task, limits } = input;
  try {
    const run = (context: ToolContext) => task.reply?.({ ...context, ...so, maxTurns: limits.maxTurns }, text);
    const reply = (await execute("the task's reply", run, input)) ?? null;
    if (reply === null || typeof reply === "string") return reply;
    throw new Error(`it returned neither a text nor null`);
  } catch (error) {
    if (error instanceof ToolFailure || error instanceof OutOfTime) throw error;
    throw new ToolFailure(`the task's reply failed: ${messageOf(error)}`, { cause: error });
  }
}
