/** Turns of a model of `hone serve`, by its /v1/chat/completions. */
import { APICallError } from "@ai-sdk/provider";
import { HoneError } from "../../core/util/errors.js";
import { onAbort } from "../../core/util/signals.js";
import type { Usage } from "../../serve/answers.js";
import { eventsOf, join } from "../../serve/openai/events.js";
import { ChatError } from "../../serve/openai/failure.js";
import type { Fields } from "../../serve/openai/fields.js";
import type { ChatServer } from "../../serve/openai/server.js";
import type { ChatRequest, writtenCall } from "../../serve/requests.js";
import type { Turns } from "../../serve/turns.js";
import { chatRequestOf, leftOut } from "./request.js";
import type { Piece, Said, Source } from "./source.js";

/** What is read of a chunk, of which hone's server has all in the form of OpenAI's. */
interface Chunk {
  readonly choices: readonly { readonly delta: Piece }[];
  readonly error?: { readonly message?: string };
  /** Of the first. */
  readonly hone?: Partial<Turns["hone"]>;
}

/** What is read of all of them together. */
interface Whole {
  readonly message: Piece & { readonly tool_calls?: ReturnType<typeof writtenCall>[] };
  readonly finish_reason?: string;
}

/** Passes a stream's pieces on, and collects its turn. */
async function collect(
  first: Chunk,
  rest: AsyncIterator<Chunk, undefined>,
  onPiece?: (piece: Piece) => void,
): Promise<Said> {
  const chunks: Chunk[] = [];
  for (let chunk: Chunk | undefined = first; chunk; chunk = (await rest.next()).value) {
    chunks.push(chunk);
    for (const { delta } of chunk.choices) onPiece?.(delta);
  }
  const whole = join(chunks as readonly object[] as readonly Fields[], true);
  const usage = whole.usage as Usage | undefined;
  const { message, finish_reason: reason } = whole.choices[0] as Whole;
  if (reason === undefined) throw new HoneError("the server's answer ended before the turn did");
  const { continued = false, history_rewritten: historyRewritten = 0, seed = null } = first.hone ?? {};
  return {
    reasoning: message.reasoning_content ?? "",
    text: message.content ?? "",
    calls: (message.tool_calls ?? []).map(({ id, function: { name, arguments: written } }) => ({
      id,
      name,
      arguments: written,
    })),
    stop: reason === "length" ? "length" : "stop",
    usage: {
      prompt: usage?.prompt_tokens ?? 0,
      cached: usage?.prompt_tokens_details?.cached_tokens ?? 0,
      sampled: usage?.completion_tokens ?? 0,
    },
    about: { continued, historyRewritten, seed },
  };
}

/** @throws ChatError where the stream ends with an error */
async function* chunksOf(response: Response): AsyncGenerator<Chunk, undefined> {
  for await (const data of eventsOf(response)) {
    if (data === "[DONE]") return;
    const chunk = JSON.parse(data) as Chunk;
    const { error } = chunk;
    if (error) throw new ChatError({ kind: "refused", status: 0, text: error.message ?? data, body: error });
    yield chunk;
  }
}

/** @param server its URL with /v1 */
export function overHttp(server: ChatServer, name: string): Source {
  const failed = (error: unknown, request: ChatRequest, ...signals: readonly (AbortSignal | undefined)[]): unknown => {
    const ended = signals.find((signal) => signal?.aborted);
    if (ended) return ended.reason;
    if (!(error instanceof ChatError)) return error;
    const { kind, status, text, body } = error;
    return new APICallError({
      message: text,
      url: `${server.url}/chat/completions`,
      requestBodyValues: request,
      ...(status === 0 ? {} : { statusCode: status }),
      isRetryable: kind === "connection" || status === 429 || status === 503,
      ...(body === undefined ? {} : { responseBody: JSON.stringify({ error: body }) }),
      data: body,
      cause: error,
    });
  };
  return {
    name,
    begin: async (options) => {
      const { abortSignal } = options;
      const request = chatRequestOf(options, name);
      // Ends the request when the caller no longer waits, or nobody reads any more.
      const end = new AbortController();
      const signal = abortSignal ? AbortSignal.any([abortSignal, end.signal]) : end.signal;
      const body = { ...request, stream: true, stream_options: { include_usage: true } };
      try {
        // With its client for HTTP, which a program that imports hone need not load.
        const { request: send } = await import("../../serve/openai/http.js");
        const chunks = chunksOf(await send(server, "chat/completions", { body, signal }));
        const { done, value: first } = await chunks.next();
        if (done) throw new HoneError("the server's answer is empty");
        return {
          warnings: leftOut(first.hone?.not_enforced ?? []),
          admit: () => undefined,
          sample: async (onPiece, gone) => {
            using _leaving = onAbort(gone, () => end.abort(gone?.reason));
            try {
              return await collect(first, chunks, onPiece);
            } catch (error) {
              throw failed(error, request, abortSignal, gone);
            }
          },
        };
      } catch (error) {
        throw failed(error, request, abortSignal);
      }
    },
  };
}
