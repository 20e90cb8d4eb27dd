/**
 * Any model behind an OpenAI-compatible chat API as a player, through its own tool calls: baselines, and teachers whose
 * trajectories can warm-start a smaller model. It has text and calls, but no tokens.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { isObject, malformed, parsed } from "../chat/formats/format.js";
import type { WrittenCall } from "../core/rollout/conversation.js";
import type { ApiSettings } from "../core/rollout/player.js";
import type { Opening, Session, Turn, TurnLimits } from "../core/rollout/session.js";
import type { CallRecord, ChatMessage } from "../core/task/task.js";
import { HoneError } from "../core/util/errors.js";
import { toJson } from "../core/util/json.js";
import { Random } from "../core/util/random.js";
import { anyOf } from "../core/util/signals.js";
import { awakeTime, TimeLimit } from "../core/util/time-limit.js";
import { type Call, type Completion, complete } from "../serve/openai/completion.js";
import type { ChatMessage as ApiMessage, Dialect } from "../serve/openai/dialect.js";
import { adviceFor, ChatError, causeOf, mayPass } from "../serve/openai/failure.js";
import { shownUrl } from "../serve/openai/server.js";
import { estimateTokens } from "../serve/openai/tokens.js";

/** Attempts after the first where a server fails; one that is busy is asked until the turn's deadline. */
const RETRIES = 3;
/** Milliseconds of the first wait between attempts, where the server names none; it doubles up to the longest. */
const FIRST_WAIT = 500;
const LONGEST_WAIT = 8000;

function readApiCall({ name, arguments: text }: Call): WrittenCall {
  const args = text.trim() === "" ? {} : parsed(text);
  if (args === undefined) return malformed(text, "the tool call's arguments are not valid JSON");
  if (!isObject(args)) return malformed(text, "the tool call's arguments are not a JSON object");
  return { kind: "call", call: { name, arguments: args } };
}

/** Worked examples of a prompt have calls of their own; a server wants an id for each, and in the results of them. */
function openingMessages(messages: Opening["messages"]): ApiMessage[] {
  const open: string[] = [];
  let count = 0;
  return messages.map((message): ApiMessage => {
    const { role, content } = message;
    if (role === "tool") return { role, tool_call_id: message.id ?? open.shift() ?? `example_${count}`, content };
    if (role !== "assistant") return { role, content };
    const calls = (message.tool_calls ?? []).map(({ id, name, arguments: args }) => {
      const own = id ?? `example_${count++}`;
      if (id === undefined) open.push(own);
      return apiCall({ id: own, name, arguments: toJson(args), more: {} });
    });
    return { role, content, ...(calls.length > 0 ? { tool_calls: calls } : {}) };
  });
}

export class ApiSession implements Session {
  readonly #dialect: Dialect;
  readonly #settings: ApiSettings;
  readonly #messages: ApiMessage[];
  readonly #tools: readonly object[];
  readonly #seed: number;
  readonly #random: Random;
  #open: readonly Call[] = [];
  #promptTokens = 0;

  /** @param dialect one per thread, shared by all conversations: what one finds out all know */
  constructor(dialect: Dialect, settings: ApiSettings, opening: Opening, seed: number) {
    this.#dialect = dialect;
    this.#settings = settings;
    // Servers take 32-bit seeds; those without seeds ignore it.
    this.#seed = seed % 2 ** 31;
    this.#random = new Random("player-wait", seed);
    this.#tools = opening.tools;
    this.#messages = openingMessages(opening.messages);
  }

  async turn(limits: TurnLimits): Promise<Turn> {
    const completion = await this.#completion(limits);
    if (completion === "deadline") return { content: "", calls: [], completionTokens: 0, stop: "deadline" };
    const { text, calls, thoughts, refusal, finish, usage } = completion;
    const content = text || (refusal ?? "");
    this.#open = calls;
    this.#messages.push({
      role: "assistant",
      content,
      ...(calls.length > 0 ? { tool_calls: calls.map(apiCall) } : {}),
      ...(thoughts ? { thoughts: { [thoughts.name]: thoughts.text } } : {}),
    });
    // Not estimated, as the answer's are: what a server does not say has no cost.
    this.#promptTokens += usage.prompt ?? 0;
    const written = [content, thoughts?.text, ...calls.map((call) => call.name + call.arguments)].join("");
    return {
      content,
      calls: calls.map(readApiCall),
      completionTokens: usage.completion ?? estimateTokens(written),
      stop: finish === "length" ? "length" : "stop",
    };
  }

  /** Asks again while the server is busy, and a few times where it fails, as long as the turn has time. */
  async #completion({ signal, seconds, over }: TurnLimits): Promise<Completion | "deadline"> {
    const began = awakeTime();
    const left = () => 1000 * seconds - (awakeTime() - began);
    using time = new TimeLimit(seconds, () => undefined);
    using late = anyOf([time.signal, ...(over ? [over] : [])]);
    using end = anyOf([signal, late.signal]);
    const question = { messages: this.#messages, tools: this.#tools, seed: this.#seed };
    const send = (body: object) => complete(this.#settings, body, end.signal);
    try {
      let failed = 0;
      let busy = 0;
      for (;;) {
        try {
          return await this.#dialect.ask(question, send, failed);
        } catch (error) {
          if (end.signal.aborted || !(error instanceof ChatError)) throw error;
          const cause = causeOf(error);
          const longest = Math.min(LONGEST_WAIT, FIRST_WAIT * 2 ** (failed + busy));
          const wait = error.after ?? longest * (0.5 + 0.5 * this.#random.float());
          const again = mayPass(cause) && (cause === "busy" || failed < RETRIES) && wait < left();
          if (!again) throw this.#noAnswer(error);
          if (cause === "busy") busy++;
          else failed++;
          await sleep(wait, undefined, { signal: end.signal });
        }
      }
    } catch (error) {
      signal.throwIfAborted();
      if (late.signal.aborted) return "deadline";
      throw error;
    }
  }

  #noAnswer(error: ChatError): HoneError {
    const { url } = this.#settings;
    const advice = adviceFor("player", this.#settings, error);
    // Without the error as its cause, which may quote the request.
    return new HoneError(
      `the model at ${shownUrl(url)} did not answer: ${error.message}${advice ? `; ${advice}` : ""}`,
    );
  }

  respond(messages: readonly ChatMessage[], _calls: readonly CallRecord[]): void {
    messages.forEach((message, index) => {
      if (message.role === "user") this.#messages.push({ role: "user", content: message.content });
      const call = this.#open[index];
      if (call) this.#messages.push({ role: "tool", tool_call_id: call.id, content: message.content });
    });
  }

  promptTokens(): number {
    return this.#promptTokens;
  }

  close(): void {
    this.#open = [];
  }
}

const apiCall = ({ id, name, arguments: text, more }: Call) => ({
  ...more,
  id,
  type: "function",
  function: { name, arguments: text },
});
