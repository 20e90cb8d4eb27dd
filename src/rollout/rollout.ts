/**
 * One rollout: the player and the task's tools take turns until the player answers or a limit ends it. Nothing the
 * player writes can make it fail: every such end has a name. It rejects only when a person must look (a defect in the
 * task's reward, a player that cannot be reached) or when its signal is aborted.
 */
import {
  type AnyTask,
  type CallOutcome,
  type CallRecord,
  type ChatMessage,
  type Reward,
  type RolloutEnd,
  type Scenario,
  type Tool,
  ToolError,
  toolSchema,
} from "../tasks/index.js";
import { messageOf, nearest } from "../util/index.js";
import { type DeadlineCause, deadlineCause } from "./deadline.js";
import type { Session, Turn } from "./session.js";
import type { WrittenCall } from "./tool-calls.js";
import type { TokenRecord } from "./transcript.js";

export interface RolloutLimits {
  /** Assistant turns at most. */
  readonly maxTurns: number;
  /** Tokens a turn may have. */
  readonly maxTokens: number;
  /** Seconds one turn of the player, one tool call and the whole rollout may take. */
  readonly turnSeconds: number;
  readonly toolSeconds: number;
  readonly rolloutSeconds: number;
  /** What a call that cannot run does: the model reads the error and goes on, or the rollout ends as in ART. */
  readonly onToolError: "observe" | "stop";
}

/** Characters of one tool result; more is a defect of the tool, not something to put before a model. */
export const MAX_RESULT_CHARS = 1_000_000;

/** What a rollout waits for, for whoever must explain a hang. */
export interface Waiting {
  turn: number;
  for: string;
  /** Milliseconds of the clock. */
  since: number;
}

export interface RolloutOutcome {
  messages: ChatMessage[];
  calls: CallRecord[];
  answer: Record<string, unknown> | undefined;
  end: RolloutEnd;
  /** At the end "deadline": what used up the time. */
  deadlineCause: DeadlineCause | undefined;
  reason: string | undefined;
  turns: number;
  reward: Reward;
  tokens: TokenRecord | undefined;
  completionTokens: number;
  promptTokens: number;
  seconds: { total: number; player: number; queue: number; tools: number };
}

export interface RolloutInput {
  readonly task: AnyTask;
  readonly scenario: Scenario;
  readonly world: unknown;
  readonly session: Session;
  readonly limits: RolloutLimits;
  readonly signal: AbortSignal;
  /** Told at every wait. */
  readonly onWaiting?: (waiting: Waiting) => void;
}

/** What the messages and schemas of a scenario's first prompt are. */
export function opening(task: AnyTask, scenario: Scenario, maxTurns: number) {
  return { messages: task.prompt(scenario, { maxTurns }), tools: task.tools.map((tool) => toolSchema(tool)) };
}

/** The tool itself failed or hung: not the model's doing. */
class ToolFailure extends Error {}

/** The rollout's time was over while a tool ran. */
class OutOfTime extends Error {}

/** What a call gave: the record, and the text the model reads of its result. */
interface Answered {
  record: CallRecord;
  text: string;
}

/** Runs one written call. Throws {@link ToolFailure} and {@link OutOfTime}. */
async function runCall(written: WrittenCall, turn: number, input: RolloutInput, deadline: number): Promise<Answered> {
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
    const close = nearest(name, names);
    const hint = close ? `did you mean ${close}?` : `there are ${names.join(", ")}`;
    return refused(name, args, "unknown_tool", `no tool is called ${name.slice(0, 64)}; ${hint}`);
  }
  const parsed = tool.parameters.safeParse(args);
  if (!parsed.success) {
    const [issue] = parsed.error.issues;
    const where = issue?.path.join(".");
    const problem = `${where ? `${where}: ` : ""}${issue?.message ?? "wrong arguments"}`.slice(0, 200);
    return refused(
      name,
      args,
      "bad_arguments",
      `${problem}; ${name} takes ${Object.keys(tool.parameters.shape).join(", ")}`,
    );
  }
  try {
    const result = (await execute(tool, parsed.data, input, deadline)) ?? null;
    return { record: { turn, name, arguments: parsed.data, outcome: "ok", result }, text: resultText(name, result) };
  } catch (error) {
    if (error instanceof ToolError) return refused(name, parsed.data, "tool_error", error.message);
    if (error instanceof ToolFailure || error instanceof OutOfTime) throw error;
    throw new ToolFailure(`the tool ${name} failed: ${messageOf(error)}`, { cause: error });
  }
}

/** What the model reads of a result: a string as it is, anything else as JSON. */
function resultText(name: string, result: unknown): string {
  const text = typeof result === "string" ? result : JSON.stringify(result);
  if (text.length > MAX_RESULT_CHARS) {
    const millions = (text.length / 1e6).toFixed(1);
    throw new ToolFailure(
      `the tool ${name} returned ${millions} million characters; let it return at most ${MAX_RESULT_CHARS / 1e6} million`,
    );
  }
  return text;
}

/** Runs the tool's function under its deadline and the rollout's signal. */
async function execute(tool: Tool, args: unknown, input: RolloutInput, deadline: number): Promise<unknown> {
  const { scenario, world, signal, limits } = input;
  const left = deadline - Date.now();
  const milliseconds = Math.max(0, Math.min(limits.toolSeconds * 1000, left));
  const stop = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const abort = () => stop.abort(signal.reason);
  try {
    signal.throwIfAborted();
    signal.addEventListener("abort", abort, { once: true });
    const ended = new Promise<never>((_, reject) => {
      stop.signal.addEventListener("abort", () => reject(stop.signal.reason), { once: true });
      timer = setTimeout(() => {
        const seconds = (milliseconds / 1000).toFixed(1);
        stop.abort(
          left <= limits.toolSeconds * 1000
            ? new OutOfTime(`the rollout's time was over after ${seconds} seconds of the tool ${tool.name}`)
            : new ToolFailure(`the tool ${tool.name} did not return within ${seconds} seconds`),
        );
      }, milliseconds);
    });
    const result = tool.execute(args as Record<string, unknown>, { scenario, world, signal: stop.signal });
    return await Promise.race([result, ended]);
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", abort);
  }
}

/** Outcomes that end a rollout under `--on-tool-error stop`, as they do in ART. */
const badCalls: ReadonlySet<CallOutcome> = new Set(["malformed", "unknown_tool", "bad_arguments"]);

const endOfStop = { length: "token_limit", context: "context_limit" } as const;

function assistantMessage(turn: Turn): ChatMessage {
  const toolCalls = turn.calls.flatMap((written) => (written.kind === "call" ? [written.call] : []));
  return toolCalls.length > 0
    ? { role: "assistant", content: turn.content, tool_calls: toolCalls }
    : { role: "assistant", content: turn.content };
}

/** Plays one rollout to its end and rewards it. */
export async function playRollout(input: RolloutInput): Promise<RolloutOutcome> {
  const { task, scenario, world, session, limits, signal, onWaiting } = input;
  const started = performance.now();
  const deadline = Date.now() + limits.rolloutSeconds * 1000;
  const messages = task.prompt(scenario, { maxTurns: limits.maxTurns });
  const calls: CallRecord[] = [];
  const seconds = { total: 0, player: 0, queue: 0, tools: 0 };
  let completionTokens = 0;
  let turns = 0;
  let answer: Record<string, unknown> | undefined;
  let reason: string | undefined;
  let cause: DeadlineCause | undefined;

  const since = (from: number) => (performance.now() - from) / 1000;
  const overdue = (): RolloutEnd => {
    cause = deadlineCause(seconds, since(started));
    return "deadline";
  };
  const waitingFor = (what: string, turn: number) => onWaiting?.({ turn, for: what, since: Date.now() });

  const play = async (): Promise<RolloutEnd> => {
    while (turns < limits.maxTurns) {
      waitingFor("the player", turns + 1);
      const turnStarted = performance.now();
      const turnDeadline = Date.now() + limits.turnSeconds * 1000;
      const turn = await session.turn({
        maxTokens: limits.maxTokens,
        deadline: Math.min(deadline, turnDeadline),
        signal,
      });
      const { waitedSeconds: queue = 0 } = turn;
      const player = since(turnStarted);
      seconds.player += player;
      seconds.queue += queue;
      completionTokens += turn.completionTokens;
      if (turn.completionTokens > 0 || turn.stop === "stop") {
        turns++;
        messages.push(assistantMessage(turn));
      }
      if (turn.stop === "deadline") {
        if (deadline <= turnDeadline) return overdue();
        cause = deadlineCause({ player, queue, tools: 0 }, player);
        return "deadline";
      }
      if (turn.stop !== "stop") return endOfStop[turn.stop];
      if (turn.calls.length === 0) return "no_tool_call";

      const records: CallRecord[] = [];
      const responses: ChatMessage[] = [];
      for (const written of turn.calls) {
        const name = written.kind === "call" ? written.call.name : "a malformed call";
        waitingFor(`the tool ${name.slice(0, 64)}`, turns);
        const toolStarted = performance.now();
        const { record, text } = await runCall(written, turns, input, deadline).finally(() => {
          seconds.tools += since(toolStarted);
        });
        records.push(record);
        calls.push(record);
        if (record.outcome === "ok" && task.tools.find((tool) => tool.name === record.name)?.final) {
          answer = record.arguments;
          return "answered";
        }
        if (limits.onToolError === "stop" && badCalls.has(record.outcome)) return "bad_call";
        responses.push({ role: "tool", name: record.name, content: text });
      }
      messages.push(...responses);
      if (Date.now() >= deadline) return overdue();
      session.respond(responses, records);
    }
    return "turn_limit";
  };

  let end: RolloutEnd;
  try {
    end = await play();
  } catch (error) {
    if (signal.aborted || !(error instanceof ToolFailure || error instanceof OutOfTime)) throw error;
    end = error instanceof ToolFailure ? "tool_failure" : overdue();
    reason = error.message;
  }
  waitingFor("the reward", turns);
  const finished = { messages, calls, answer, end, turns, maxTurns: limits.maxTurns };
  const reward = await task.reward(finished, scenario, world);
  if (!Number.isFinite(reward.reward)) {
    throw new Error(
      `the reward of task ${task.name} for scenario ${scenario.id} is ${reward.reward}, not a finite number`,
    );
  }
  seconds.total = since(started);
  return {
    messages,
    calls,
    answer,
    end,
    deadlineCause: cause,
    reason,
    turns,
    reward,
    tokens: session.tokens(),
    completionTokens,
    promptTokens: session.promptTokens(),
    seconds,
  };
}
