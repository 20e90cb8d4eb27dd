/** A language model of the AI SDK (its LanguageModelV3) over a {@link Source} of turns. */
import {
  APICallError,
  type LanguageModelV3,
  type LanguageModelV3CallOptions,
  type LanguageModelV3FinishReason,
  type LanguageModelV3StreamPart,
  type LanguageModelV3Usage,
  type SharedV3Warning,
  UnsupportedFunctionalityError,
} from "@ai-sdk/provider";
import { HoneError } from "../../core/util/errors.js";
import { anyOf } from "../../core/util/signals.js";
import type { Usage } from "../../serve/answers.js";
import { ApiError } from "../../serve/errors.js";
import { ChatError } from "../../serve/openai/failure.js";
import type { ChatRequest } from "../../serve/requests.js";
import { chatRequestOf } from "./request.js";
import type { Answered, Choice, Said, Source } from "./source.js";

const FINISHES: Readonly<Record<string, LanguageModelV3FinishReason["unified"]>> = {
  stop: "stop",
  length: "length",
  tool_calls: "tool-calls",
};

const callsOf = ({ tool_calls: calls = [] }: Said) =>
  calls.map(({ id, function: { name, arguments: input } }) => ({
    type: "tool-call" as const,
    toolCallId: id,
    toolName: name,
    input,
  }));

function usageOf(usage: Usage | null | undefined): LanguageModelV3Usage {
  const { prompt_tokens: total = 0, completion_tokens: sampled = 0, prompt_tokens_details: details } = usage ?? {};
  const cached = details?.cached_tokens ?? 0;
  return {
    inputTokens: { total, noCache: total - cached, cacheRead: cached, cacheWrite: undefined },
    outputTokens: { total: sampled, text: undefined, reasoning: undefined },
  };
}

/** What is told at an answer's end. @param first its first chunk, or all of it */
function endOf({ hone }: Answered, { finish_reason: raw, hone: problems }: Choice, usage: Usage | null | undefined) {
  const { continued = false, history_rewritten: historyRewritten = 0, seed = null } = hone ?? {};
  const { schema_problem: schemaProblem, call_problem: callProblem } = problems ?? {};
  return {
    finishReason: { unified: FINISHES[raw ?? ""] ?? "other", raw: raw ?? undefined },
    usage: usageOf(usage),
    providerMetadata: { hone: { continued, historyRewritten, seed, schemaProblem, callProblem } },
  };
}

/** What of a request is not done as it asks. @param first of its answer */
function warningsOf(
  { rules }: Source,
  { temperature }: LanguageModelV3CallOptions,
  { hone }: Answered,
): SharedV3Warning[] {
  const fixed = rules?.fixedTemperature;
  const warning = (feature: string, details: string) => ({ type: "unsupported" as const, feature, details });
  const free =
    "it is not enforced: ask for the form in the prompt; schemaProblem and callProblem of providerMetadata.hone name the first deviation";
  return [
    ...(fixed === undefined || temperature === undefined || temperature === fixed
      ? []
      : [warning("temperature", `turns of a rollout are sampled at ${fixed}`)]),
    ...(hone?.not_enforced ?? []).map((what) =>
      rules?.enforces === false ? warning(what, free) : warning("a part of a schema", what),
    ),
  ];
}

/** The error for the SDK, which asks again where that may help; one that is no answer as it is. */
function sdkError(cause: unknown, url: string, requestBodyValues: ChatRequest): unknown {
  if (!(cause instanceof ApiError || cause instanceof ChatError)) return cause;
  const { status } = cause;
  const isLocal = cause instanceof ApiError;
  const message = isLocal ? cause.message : cause.text;
  const error = isLocal ? cause.body.error : (cause.body as Partial<ApiError["body"]["error"]> | undefined);
  if (error?.code === "unsupported_value") {
    return new UnsupportedFunctionalityError({ functionality: error.param ?? "this option", message });
  }
  const data = error && { error };
  return new APICallError({
    message,
    url,
    requestBodyValues,
    ...(status === 0 ? {} : { statusCode: status }),
    isRetryable: status === 429 || status === 503 || (!isLocal && cause.kind === "connection"),
    ...(data && { responseBody: JSON.stringify(data) }),
    data,
    cause,
  });
}

const either = (...signals: readonly (AbortSignal | undefined)[]) =>
  anyOf(signals.filter((signal) => signal !== undefined));

export function languageModel(source: Source): LanguageModelV3 {
  const { name, url } = source;
  const response = () => ({ timestamp: new Date(), modelId: name });
  const requestOf = (options: LanguageModelV3CallOptions) => {
    try {
      return chatRequestOf(options, name);
    } catch (error) {
      source.rules?.onError(error);
      throw error;
    }
  };
  const early = () => new HoneError("the server's answer ended before the turn did");

  async function* answersTo(request: ChatRequest, signal: AbortSignal): AsyncGenerator<Answered, undefined> {
    try {
      yield* source.ask(request, signal);
    } catch (error) {
      throw signal.aborted ? signal.reason : sdkError(error, url, request);
    }
  }

  /** @returns the answer, or its first chunk, and the `rest` of them */
  const asked = async (options: LanguageModelV3CallOptions, stream: boolean, signal: AbortSignal) => {
    const request = requestOf(options);
    const streamed = stream ? { stream, stream_options: { include_usage: true } } : {};
    const rest = answersTo({ ...request, ...streamed }, signal);
    const { value: first } = await rest.next();
    if (!first) throw early();
    return { first, rest, warnings: warningsOf(source, options, first) };
  };

  /** The parts of a turn that is streamed. @throws what refuses the request, before the first */
  async function* partsOf(
    options: LanguageModelV3CallOptions,
    gone: AbortSignal,
  ): AsyncGenerator<LanguageModelV3StreamPart, undefined> {
    using ended = either(options.abortSignal, gone);
    const { first, rest, warnings } = await asked(options, true, ended.signal);
    yield { type: "stream-start", warnings };
    yield { type: "response-metadata", ...response() };
    let open: "reasoning" | "text" | undefined;
    function* inside(kind: typeof open): Generator<LanguageModelV3StreamPart> {
      if (open && open !== kind) yield { type: `${open}-end`, id: open };
      if (kind && open !== kind) yield { type: `${kind}-start`, id: kind };
      open = kind;
    }
    function* piece(kind: NonNullable<typeof open>, delta: string | null = ""): Generator<LanguageModelV3StreamPart> {
      if (!delta) return;
      yield* inside(kind);
      yield { type: `${kind}-delta`, id: kind, delta };
    }
    let last: Choice | undefined;
    let usage: Answered["usage"];
    try {
      for (let chunk: Answered | undefined = first; chunk; chunk = (await rest.next()).value) {
        usage = chunk.usage ?? usage;
        for (const choice of chunk.choices) {
          const { delta = {}, finish_reason: reason } = choice;
          yield* piece("reasoning", delta.reasoning_content);
          yield* piece("text", delta.content);
          if (delta.tool_calls) yield* inside(undefined);
          yield* callsOf(delta);
          if (reason !== null) last = choice;
        }
      }
      yield* inside(undefined);
      if (!last) throw early();
      yield { type: "finish", ...endOf(first, last, usage) };
    } catch (error) {
      yield* inside(undefined);
      yield { type: "error", error };
    }
  }

  return {
    specificationVersion: "v3",
    provider: "hone",
    modelId: name,
    supportedUrls: {},

    async doGenerate(options) {
      using ended = either(options.abortSignal);
      const { first, warnings } = await asked(options, false, ended.signal);
      const choice = first.choices[0] as Choice;
      const { message = {} } = choice;
      const { reasoning_content: reasoning, content: text } = message;
      return {
        content: [
          ...(reasoning ? [{ type: "reasoning" as const, text: reasoning }] : []),
          ...(text ? [{ type: "text" as const, text }] : []),
          ...callsOf(message),
        ],
        ...endOf(first, choice, first.usage),
        warnings,
        response: response(),
      };
    },

    async doStream(options) {
      const gone = new AbortController();
      const parts = partsOf(options, gone.signal);
      const first = await parts.next();
      const stream = new ReadableStream<LanguageModelV3StreamPart>({
        start: (controller) => controller.enqueue(first.value as LanguageModelV3StreamPart),
        pull: async (controller) => {
          const { value } = await parts.next();
          if (value) controller.enqueue(value);
          else controller.close();
        },
        cancel: async () => {
          gone.abort(new Error("the stream was cancelled"));
          await parts.return(undefined);
        },
      });
      return { stream };
    },
  };
}
