/** Turns of a model of `hone serve`, by its /v1/chat/completions and OpenAI's own client. */
import { APICallError } from "@ai-sdk/provider";
import type OpenAI from "openai";
import { type ChatServer, chatErrorText, connectionFailure, isApiError, streamingClient } from "../openai/index.js";
import type { ChatRequest } from "../serve/index.js";
import { HoneError } from "../util/index.js";
import { chatRequestOf, leftOut } from "./request.js";
import type { Piece, Said, Source, Turn } from "./source.js";

/** What hone's server adds to answers, chunks and choices. */
interface Extended {
  readonly hone?: {
    readonly continued?: boolean;
    readonly history_rewritten?: number;
    readonly seed?: number;
    readonly not_enforced?: readonly string[];
  };
}

type Usage = OpenAI.CompletionUsage | null | undefined;

type Calls = { id: string; name: string; arguments: string }[];

function said(
  parts: Pick<Said, "reasoning" | "text" | "calls">,
  reason: string | null | undefined,
  usage: Usage,
  { hone }: Extended,
): Said {
  return {
    ...parts,
    stop: reason === "length" ? "length" : "stop",
    usage: {
      prompt: usage?.prompt_tokens ?? 0,
      cached: usage?.prompt_tokens_details?.cached_tokens ?? 0,
      sampled: usage?.completion_tokens ?? 0,
    },
    about: {
      continued: hone?.continued ?? false,
      historyRewritten: hone?.history_rewritten ?? 0,
      seed: hone?.seed ?? null,
    },
  };
}

const warningsOf = ({ hone }: Extended) => leftOut(hone?.not_enforced ?? []);

/** A turn that has been sampled whole. */
function whole(answer: OpenAI.ChatCompletion & Extended): Turn {
  const [choice] = answer.choices;
  if (!choice) throw new HoneError("the server's answer has no choice");
  const {
    content,
    tool_calls: calls = [],
    reasoning_content: reasoning,
  } = choice.message as typeof choice.message & {
    reasoning_content?: string;
  };
  const parts = {
    reasoning: reasoning ?? "",
    text: content ?? "",
    calls: calls.flatMap((call) => (call.type === "function" ? [{ id: call.id, ...call.function }] : [])),
  };
  return {
    warnings: warningsOf(answer),
    admit: () => undefined,
    sample: async () => said(parts, choice.finish_reason, answer.usage, answer),
  };
}

type Chunk = OpenAI.ChatCompletionChunk & Extended;

/** Passes a stream's pieces on, and collects its turn. */
async function collect(first: Chunk, rest: AsyncIterator<Chunk>, onPiece?: (piece: Piece) => void): Promise<Said> {
  const calls: Calls = [];
  let text = "";
  let reasoning = "";
  let reason: string | null = null;
  let usage: Usage;
  for (let chunk: Chunk | undefined = first; chunk; ) {
    usage = chunk.usage ?? usage;
    for (const { delta, finish_reason } of chunk.choices) {
      const piece = delta as Piece;
      text += piece.content ?? "";
      reasoning += piece.reasoning_content ?? "";
      onPiece?.(piece);
      for (const call of delta.tool_calls ?? []) {
        calls.push({ id: call.id ?? "", name: call.function?.name ?? "", arguments: call.function?.arguments ?? "" });
      }
      reason = finish_reason ?? reason;
    }
    const next: IteratorResult<Chunk> = await rest.next();
    chunk = next.done ? undefined : next.value;
  }
  if (reason === null) throw new HoneError("the server's answer ended before the turn did");
  return said({ reasoning, text, calls }, reason, usage, first);
}

/** @param server its URL with /v1 */
export function overHttp(server: ChatServer, name: string): Source {
  const failed = (error: unknown, request: ChatRequest, ...signals: readonly (AbortSignal | undefined)[]): unknown => {
    const ended = signals.find((signal) => signal?.aborted);
    if (ended) return ended.reason;
    const lost = connectionFailure(error) !== undefined;
    if (!isApiError(error)) return error;
    const { status, error: body } = error;
    const of = body as { message?: unknown } | undefined;
    return new APICallError({
      message: typeof of?.message === "string" ? of.message : chatErrorText(error, server.key),
      url: `${server.url}/chat/completions`,
      requestBodyValues: request,
      ...(status === undefined ? {} : { statusCode: status }),
      isRetryable: lost || status === 429 || status === 503,
      ...(body === undefined ? {} : { responseBody: JSON.stringify({ error: body }) }),
      data: body,
      cause: error,
    });
  };
  return {
    name,
    begin: async (options, streamed) => {
      const { abortSignal: signal } = options;
      const request = chatRequestOf(options, name);
      try {
        const { completions } = (await streamingClient(server)).chat;
        // Its fields that are null are those that the server takes null for.
        const asked = { ...request, stream: false } as unknown as OpenAI.ChatCompletionCreateParamsNonStreaming;
        if (!streamed) return whole(await completions.create(asked, { signal }));
        const about = { stream: true as const, stream_options: { include_usage: true } };
        const stream = await completions.create({ ...asked, ...about }, { signal });
        const chunks: AsyncIterator<Chunk> = stream[Symbol.asyncIterator]();
        const { done, value: first } = await chunks.next();
        if (done) throw new HoneError("the server's answer is empty");
        return {
          warnings: warningsOf(first),
          admit: () => undefined,
          sample: async (onPiece, gone) => {
            const abort = () => stream.controller.abort();
            gone?.addEventListener("abort", abort, { once: true });
            try {
              return await collect(first, chunks, onPiece);
            } catch (error) {
              throw failed(error, request, signal, gone);
            } finally {
              gone?.removeEventListener("abort", abort);
            }
          },
        };
      } catch (error) {
        throw failed(error, request, signal);
      }
    },
  };
}
