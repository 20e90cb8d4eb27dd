/** A rollout's model for the AI SDK (its LanguageModelV3), in this process: no server is between. */
import {
  APICallError,
  type LanguageModelV3,
  type LanguageModelV3CallOptions,
  type LanguageModelV3Content,
  type LanguageModelV3FinishReason,
  type LanguageModelV3StreamPart,
  type LanguageModelV3Usage,
  type SharedV3Warning,
  UnsupportedFunctionalityError,
} from "@ai-sdk/provider";
import {
  type Answer,
  ApiError,
  type Conversation,
  callFormOf,
  Deltas,
  demandsOf,
  formatOf,
  messagesOf,
  reasoningOf,
  toolsOf,
} from "../serve/index.js";
import { toJson } from "../util/index.js";
import { apiChoice, apiMessages, apiTools } from "./prompt.js";
import type { RolloutModel } from "./rollout-model.js";

/** The SDK asks again where it may: when too many requests wait. */
function sdkError(error: unknown): unknown {
  if (!(error instanceof ApiError)) return error;
  if (error.code === "unsupported_value") {
    return new UnsupportedFunctionalityError({ functionality: error.param ?? "this option", message: error.message });
  }
  return new APICallError({
    message: error.message,
    url: "hone:in-process",
    requestBodyValues: {},
    statusCode: error.status,
    isRetryable: error.status === 429,
    responseBody: JSON.stringify(error.body),
    data: error.body,
    cause: error,
  });
}

function finishOf({ stop, calls }: Answer): LanguageModelV3FinishReason {
  if (stop !== "stop") return { unified: "length", raw: stop };
  return { unified: calls.length > 0 ? "tool-calls" : "stop", raw: stop };
}

function usageOf({ length }: Conversation, { segment, kept }: Answer): LanguageModelV3Usage {
  return {
    inputTokens: { total: length, noCache: length - kept, cacheRead: kept, cacheWrite: undefined },
    outputTokens: { total: segment.ids.length, text: undefined, reasoning: undefined },
  };
}

const callsOf = ({ calls }: Answer) =>
  calls.map(({ id, name, arguments: args }) => ({
    type: "tool-call" as const,
    toolCallId: id as string,
    toolName: name,
    input: toJson(args),
  }));

/** A single signal is returned as it is, since `AbortSignal.any` is slow. */
function anyOf(signals: readonly (AbortSignal | undefined)[]): AbortSignal {
  const given = signals.filter((one) => one !== undefined);
  return given.length === 1 ? (given[0] as AbortSignal) : AbortSignal.any(given);
}

interface Asking {
  readonly conversation: Conversation;
  readonly withTools: boolean;
  readonly warnings: SharedV3Warning[];
  ask(onText?: (text: string) => void, signal?: AbortSignal): Promise<Answer>;
  /** Provider metadata of an answer. */
  about(answer: Answer): { hone: Record<string, number | boolean | string | null> };
}

async function begin(model: RolloutModel, options: LanguageModelV3CallOptions, temperature: number): Promise<Asking> {
  const { maxOutputTokens, stopSequences = [], abortSignal, responseFormat } = options;
  const warnings: SharedV3Warning[] = [];
  model.checkOptions({
    model: model.name,
    temperature: options.temperature,
    top_p: options.topP,
    top_k: options.topK,
    seed: options.seed,
  });
  for (const name of ["presencePenalty", "frequencyPenalty"] as const) {
    if (options[name]) model.refuse(name, "the learner must know the distribution that tokens are sampled from");
  }
  if (options.temperature !== undefined && options.temperature !== temperature) {
    const details = `turns of a rollout are sampled at ${temperature}`;
    warnings.push({ type: "unsupported", feature: "temperature", details });
  }
  const wanted = responseFormat?.type === "json" ? responseFormat : undefined;
  if (wanted) {
    const details =
      "the schema is not enforced: ask for the form in the prompt; providerMetadata.hone.schemaProblem names the first deviation";
    warnings.push({ type: "unsupported", feature: "responseFormat", details });
  }
  const schema = wanted?.schema as Record<string, unknown> | undefined;
  const format = wanted && formatOf({ type: "json_schema", json_schema: { name: "answer", schema } });
  const asked = { tools: apiTools(options), tool_choice: apiChoice(options) };
  const callForm = callFormOf(asked);
  if (callForm) {
    const details =
      "calls are not enforced: ask for them in the prompt; providerMetadata.hone.callProblem names the first deviation";
    warnings.push({ type: "unsupported", feature: "toolChoice and strict tools", details });
  }
  model.noteUnenforced([...demandsOf(asked), ...(wanted ? ["responseFormat"] : [])]);
  const tools = toolsOf(asked.tools);
  const conversation = await model.converse(messagesOf(apiMessages(options)), tools, model.chat, abortSignal);
  return {
    conversation,
    withTools: tools.length > 0,
    warnings,
    ask: (onText, signal) =>
      model.answer(conversation, {
        // The rollout's own takes its place.
        sampling: { seed: 0 },
        maxTokens: maxOutputTokens,
        stopTexts: stopSequences,
        likeliest: undefined,
        format,
        signal: anyOf([abortSignal, signal]),
        onText,
      }),
    about: ({ read }) => ({
      hone: {
        continued: conversation.point !== null,
        historyRewritten: conversation.rewritten,
        ...(format ? { schemaProblem: format(read.said) ?? null } : {}),
        ...(callForm ? { callProblem: callForm(read.calls) ?? null } : {}),
      },
    }),
  };
}

/** The parts of a turn that is sampled, each begun and ended around its pieces. */
class Parts {
  #open: "text" | "reasoning" | undefined;
  #number = 0;
  readonly #send: (part: LanguageModelV3StreamPart) => void;

  constructor(send: (part: LanguageModelV3StreamPart) => void) {
    this.#send = send;
  }

  push(kind: "text" | "reasoning", delta: string | undefined): void {
    if (!delta) return;
    if (this.#open !== kind) {
      this.close();
      this.#open = kind;
      this.#send({ type: `${kind}-start`, id: String(++this.#number) });
    }
    this.#send({ type: `${kind}-delta`, id: String(this.#number), delta });
  }

  close(): void {
    if (this.#open) this.#send({ type: `${this.#open}-end`, id: String(this.#number) });
    this.#open = undefined;
  }
}

export function languageModel(model: RolloutModel, temperature: number): LanguageModelV3 {
  /** The error for the SDK. One that its own signal causes is no answer of the model. */
  const failed = (error: unknown, ...signals: readonly (AbortSignal | undefined)[]) => {
    if (!signals.some((signal) => signal?.aborted)) model.onError(error);
    return sdkError(error);
  };
  const prepare = async (options: LanguageModelV3CallOptions) => {
    try {
      return await begin(model, options, temperature);
    } catch (error) {
      throw failed(error);
    }
  };
  /** Call right before a turn: in between others would be admitted too. */
  const admit = () => {
    try {
      model.checkRoom(1);
    } catch (error) {
      throw failed(error);
    }
  };
  const response = () => ({ timestamp: new Date(), modelId: model.name });

  return {
    specificationVersion: "v3",
    provider: "hone",
    modelId: model.name,
    supportedUrls: {},

    async doGenerate(options) {
      const { ask, conversation, warnings, about } = await prepare(options);
      admit();
      const answer = await ask().catch((error: unknown) => {
        throw failed(error, options.abortSignal);
      });
      const reasoning = reasoningOf(answer.read.thoughts, model.chat);
      const content: LanguageModelV3Content[] = [
        ...(reasoning ? [{ type: "reasoning" as const, text: reasoning }] : []),
        ...(answer.read.said ? [{ type: "text" as const, text: answer.read.said }] : []),
        ...callsOf(answer),
      ];
      return {
        content,
        finishReason: finishOf(answer),
        usage: usageOf(conversation, answer),
        warnings,
        response: response(),
        providerMetadata: about(answer),
      };
    },

    async doStream(options) {
      const { ask, conversation, warnings, withTools, about } = await prepare(options);
      const gone = new AbortController();
      const deltas = new Deltas(model.chat, withTools, options.stopSequences ?? []);
      admit();
      const stream = new ReadableStream<LanguageModelV3StreamPart>({
        async start(controller) {
          const send = (part: LanguageModelV3StreamPart) => {
            if (!gone.signal.aborted) controller.enqueue(part);
          };
          const parts = new Parts(send);
          const push = ({ content, reasoning_content: reasoning }: ReturnType<Deltas["push"]>) => {
            parts.push("reasoning", reasoning);
            parts.push("text", content);
          };
          send({ type: "stream-start", warnings });
          send({ type: "response-metadata", ...response() });
          try {
            const answer = await ask((text) => push(deltas.push(text)), gone.signal);
            push(deltas.end(answer.read));
            parts.close();
            callsOf(answer).forEach(send);
            const finishReason = finishOf(answer);
            send({
              type: "finish",
              finishReason,
              usage: usageOf(conversation, answer),
              providerMetadata: about(answer),
            });
          } catch (error) {
            parts.close();
            send({ type: "error", error: failed(error, options.abortSignal, gone.signal) });
          }
          if (!gone.signal.aborted) controller.close();
        },
        cancel: () => gone.abort(new Error("the stream was cancelled")),
      });
      return { stream };
    },
  };
}
