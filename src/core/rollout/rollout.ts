/**
 * One rollout: the player and the task (its tools or replies) take turns until the player answers or a limit ends it.
 * No output of the player makes it fail: every such end has a name. It rejects only for defects that a person must
 * examine (in the task's reward, or a player that cannot be reached) or when its signal is aborted.
 */

import { checkReward } from "../task/fields.js";
import { promptOf } from "../task/messages.js";
import {
  type AnyTask,
  type CallOutcome,
  type CallRecord,
  type ChatMessage,
  type Reward,
  type RolloutEnd,
  type Scenario,
  toolSchema,
} from "../task/task.js";
import { copied } from "../util/json.js";
import { type Pauses, TimeLimit, Uncounted } from "../util/time-limit.js";
import { timed } from "../util/watch.js";
import { OutOfTime, replyTo, runCall, ToolFailure } from "./calls.js";
import { type DeadlineCause, deadlineCause } from "./deadline.js";
import type { Session, Turn } from "./session.js";
import type { TokenRecord } from "./transcript.js";

export interface RolloutLimits {
  /** Assistant turns at most. */
  readonly maxTurns: number;
  /** Tokens per turn at most. */
  readonly maxTokens: number;
  /**
   * Seconds that one turn of the player, one tool call and the whole rollout may take. Turns without a limit (Infinity) are played by
   * an engine that ends them by their tokens: they are none of the rollout's time.
   */
  readonly turnSeconds: number;
  readonly toolSeconds: number;
  readonly rolloutSeconds: number;
  /** Seconds that the task's file and `open` may take on a thread; default that of `--task-timeout`. */
  readonly taskSeconds?: number;
  /** Effect of a call that cannot run: the model reads the error and continues, or the rollout ends as in ART. */
  readonly onToolError: "observe" | "stop";
  /** Reward of an agent's rollout with an answer or a call in another form than was asked for; default: the task's. */
  readonly offForm?: "keep" | "zero" | "prevent";
}

/** The operation a rollout waits for, to explain a hang. */
export interface Waiting {
  turn: number;
  for: string;
}

export interface RolloutOutcome {
  messages: ChatMessage[];
  calls: CallRecord[];
  answer: Record<string, unknown> | undefined;
  end: RolloutEnd;
  /** For the end "deadline": its cause. */
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
  readonly env: unknown;
  readonly session: Session;
  /** Those of the session's prompt. Default: asked of the task. */
  readonly messages?: readonly ChatMessage[];
  readonly limits: RolloutLimits;
  readonly signal: AbortSignal;
  /** Of the player's engine: its time is none of the rollout's. */
  readonly pauses?: Pauses | undefined;
  /** The rollout's own folder, for its reward. */
  readonly folder?: string | undefined;
  /** Called before every wait. */
  readonly onWaiting?: (waiting: Waiting) => void;
}

/** Messages and tool schemas of a scenario's first prompt. */
export function opening(task: AnyTask, scenario: Scenario, maxTurns: number) {
  return { messages: promptOf(task, scenario, { maxTurns }), tools: task.tools.map((tool) => toolSchema(tool)) };
}

/** Outcomes that end a rollout under `--on-tool-error stop`, as they do in ART. */
const badCalls: ReadonlySet<CallOutcome> = new Set(["malformed", "unknown_tool", "bad_arguments"]);

const endOfStop = { length: "token_limit", context: "context_limit" } as const;

/** A turn as a message, without calls that cannot be read. */
export function assistantMessage({ content, calls }: Turn): ChatMessage {
  const toolCalls = calls.flatMap((written) => (written.kind === "call" ? [written.call] : []));
  return { role: "assistant", content, ...(toolCalls.length > 0 ? { tool_calls: toolCalls } : {}) };
}

/** Plays one rollout to its end and rewards it. */
export async function playRollout(input: RolloutInput): Promise<RolloutOutcome> {
  const { task, env, session, limits, signal, onWaiting } = input;
  // What the task's code does to it is neither recorded nor seen by the group's other rollouts.
  const scenario = copied(input.scenario);
  const started = performance.now();
  const written = new Uncounted();
  const endless = limits.turnSeconds === Number.POSITIVE_INFINITY;
  const time = new TimeLimit(limits.rolloutSeconds, () => undefined, endless ? written : input.pauses);
  const over = time.signal;
  const running = { task, scenario, env, limits, signal, over };
  const waitingFor = (what: string, turn: number) => onWaiting?.({ turn, for: what });
  waitingFor("the task's prompt", 0);
  const messages = [...(input.messages ?? promptOf(task, scenario, { maxTurns: limits.maxTurns }))];
  const calls: CallRecord[] = [];
  const seconds = { total: 0, player: 0, queue: 0, tools: 0 };
  let completionTokens = 0;
  let turns = 0;
  let answer: Record<string, unknown> | undefined;
  let reason: string | undefined;
  let cause: DeadlineCause | undefined;

  const since = (from: number) => (performance.now() - from) / 1000;
  const overdue = (): RolloutEnd => {
    cause = deadlineCause(seconds, since(started), limits.turnSeconds);
    return "deadline";
  };

  /** Handles a turn of plain text: the rollout's end, or undefined when the task has replied. */
  const onText = async (text: string): Promise<RolloutEnd | undefined> => {
    if (text === "") return "no_tool_call";
    if (task.reply) {
      waitingFor("the task's reply", turns);
      const asked = performance.now();
      const reply = await replyTo(text, { ...copied({ messages, calls }), turns }, running).finally(() => {
        seconds.tools += since(asked);
      });
      if (reply !== null) {
        const said: ChatMessage = { role: "user", content: reply };
        messages.push(said);
        if (over.aborted) return overdue();
        session.respond([said], []);
        return undefined;
      }
    }
    if (task.tools.some((tool) => tool.final)) return "no_tool_call";
    answer = { text };
    return "answered";
  };

  const play = async (): Promise<RolloutEnd> => {
    while (turns < limits.maxTurns) {
      onWaiting?.({ turn: turns + 1, for: "the player" });
      const turnStarted = performance.now();
      const turn = await written.during(() =>
        session.turn({ maxTokens: limits.maxTokens, seconds: limits.turnSeconds, over, signal }),
      );
      seconds.player += since(turnStarted);
      seconds.queue += turn.waitedSeconds ?? 0;
      completionTokens += turn.completionTokens;
      if (turn.completionTokens > 0 || turn.stop === "stop") {
        turns++;
        messages.push(assistantMessage(turn));
      }
      if (turn.stop === "deadline") {
        if (over.aborted) return overdue();
        cause = "turn";
        reason = `turn ${turns + (turn.completionTokens > 0 ? 0 : 1)} used up its ${limits.turnSeconds} seconds (--turn-timeout)`;
        return "deadline";
      }
      if (turn.stop !== "stop") return endOfStop[turn.stop];
      if (turn.calls.length === 0) {
        const ended = await onText((turn.said ?? turn.content).trim());
        if (ended) return ended;
        continue;
      }

      const records: CallRecord[] = [];
      const responses: ChatMessage[] = [];
      for (const written of turn.calls) {
        const name = written.kind === "call" ? written.call.name : "a malformed call";
        waitingFor(`the tool ${name.slice(0, 64)}`, turns);
        const toolStarted = performance.now();
        const { record, text } = await runCall(written, turns, running).finally(() => {
          seconds.tools += since(toolStarted);
        });
        records.push(record);
        calls.push(record);
        if (record.outcome === "ok" && task.tools.find((tool) => tool.name === record.name)?.final) {
          answer = record.arguments;
          return "answered";
        }
        if (limits.onToolError === "stop" && badCalls.has(record.outcome)) return "bad_call";
        const id = written.kind === "call" ? written.call.id : written.id;
        responses.push({ role: "tool", name: record.name, content: text, ...(id === undefined ? {} : { id }) });
      }
      messages.push(...responses);
      if (over.aborted) return overdue();
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
  } finally {
    time.clear();
  }
  waitingFor("the reward", turns);
  const finished = {
    ...copied({ messages, calls, answer }),
    end,
    turns,
    maxTurns: limits.maxTurns,
    folder: input.folder,
  };
  const ofReward = {
    what: `the reward of the task ${task.name}`,
    seconds: limits.toolSeconds,
    remedy: "--tool-timeout",
  };
  const returned: unknown = await timed(ofReward, () => task.reward(finished, scenario, env));
  const reward = checkReward(returned, `the reward of task ${task.name} for scenario ${scenario.id}`);
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
    tokens: session.tokens?.(),
    completionTokens,
    promptTokens: session.promptTokens?.() ?? 0,
    seconds,
  };
}
