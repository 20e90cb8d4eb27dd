/**
 * Any model behind an OpenAI-compatible chat API as a player, through its own tool calls: baselines, and teachers whose
 * trajectories can warm-start a smaller model. It has text and calls, but no tokens.
 */
import type OpenAI from "openai";
import { type ChatServer, chatClient, chatErrorText, isApiError, refusalHint } from "../openai/index.js";
import type { CallRecord, ChatMessage } from "../tasks/index.js";
import { anyOf, HoneError, parseJson, TimeLimit } from "../util/index.js";
import type { WrittenCall } from "./formats/index.js";
import type { Opening, Session, Turn, TurnLimits } from "./session.js";

export interface ApiSettings extends ChatServer {
  readonly model: string;
  /** Sent only when set: some models accept none. */
  readonly temperature: number | undefined;
  readonly maxTokens: number | undefined;
}

type ApiMessage = OpenAI.ChatCompletionMessageParam;
type ApiToolCall = OpenAI.ChatCompletionMessageFunctionToolCall;

/** One client per thread, shared by all conversations. */
export function apiClient(settings: ApiSettings): Promise<OpenAI> {
  return chatClient(settings, 3);
}

function readApiCall(call: ApiToolCall): WrittenCall {
  const { name, arguments: text } = call.function;
  let args: unknown;
  try {
    args = parseJson(text === "" ? "{}" : text);
  } catch {
    return { kind: "malformed", text, reason: "the tool call's arguments are not valid JSON" };
  }
  if (typeof args !== "object" || args === null || Array.isArray(args)) {
    return { kind: "malformed", text, reason: "the tool call's arguments are not a JSON object" };
  }
  return { kind: "call", call: { name, arguments: args as Record<string, unknown> } };
}

export class ApiSession implements Session {
  readonly #client: OpenAI;
  readonly #settings: ApiSettings;
  readonly #messages: ApiMessage[];
  readonly #tools: OpenAI.ChatCompletionFunctionTool[];
  readonly #seed: number;
  #open: ApiToolCall[] = [];
  #promptTokens = 0;

  constructor(client: OpenAI, settings: ApiSettings, opening: Opening, seed: number) {
    this.#client = client;
    this.#settings = settings;
    this.#seed = seed;
    this.#tools = [...opening.tools];
    this.#messages = opening.messages.flatMap((message): ApiMessage[] =>
      message.role === "system" || message.role === "user" ? [message] : [],
    );
  }

  async turn(limits: TurnLimits): Promise<Turn> {
    const { model, temperature, maxTokens, url, key } = this.#settings;
    const time = new TimeLimit(limits.seconds, () => undefined);
    const late = anyOf([time.signal, ...(limits.over ? [limits.over] : [])]);
    const end = anyOf([limits.signal, late.signal]);
    let completion: OpenAI.ChatCompletion;
    try {
      completion = await this.#client.chat.completions.create(
        {
          model,
          messages: this.#messages,
          // Servers refuse an empty list.
          ...(this.#tools.length > 0 ? { tools: this.#tools } : {}),
          // Servers take 32-bit seeds; those without seeds ignore it.
          seed: this.#seed % 2 ** 31,
          ...(temperature === undefined ? {} : { temperature }),
          ...(maxTokens === undefined ? {} : { max_tokens: maxTokens }),
        },
        { signal: end.signal },
      );
    } catch (error) {
      limits.signal.throwIfAborted();
      if (late.signal.aborted) return { content: "", calls: [], completionTokens: 0, stop: "deadline" };
      // Without the error as its cause, which may contain the request's headers.
      const hint = isApiError(error) && refusalHint("player", this.#settings, error.status ?? 0);
      throw new HoneError(`the model at ${url} did not answer: ${chatErrorText(error, key)}${hint ? `; ${hint}` : ""}`);
    } finally {
      time.clear();
      late.release();
      end.release();
    }
    const choice = completion.choices?.[0];
    if (!choice) throw new HoneError(`the model at ${url} sent an answer without choices`);
    const { message } = choice;
    this.#open = (message.tool_calls ?? []).filter((call) => call.type === "function");
    this.#messages.push({
      role: "assistant",
      content: message.content ?? "",
      ...(this.#open.length > 0 ? { tool_calls: this.#open } : {}),
    });
    this.#promptTokens += completion.usage?.prompt_tokens ?? 0;
    return {
      content: message.content ?? "",
      calls: this.#open.map(readApiCall),
      completionTokens: completion.usage?.completion_tokens ?? 0,
      stop: choice.finish_reason === "length" ? "length" : "stop",
    };
  }

  respond(messages: readonly ChatMessage[], _calls: readonly CallRecord[]): void {
    messages.forEach((message, index) => {
      if (message.role === "user") this.#messages.push(message);
      const call = this.#open[index];
      if (call) this.#messages.push({ role: "tool", tool_call_id: call.id, content: message.content });
    });
  }

  tokens(): undefined {
    return undefined;
  }

  promptTokens(): number {
    return this.#promptTokens;
  }

  close(): void {
    this.#open = [];
  }
}
