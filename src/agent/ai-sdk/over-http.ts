/** Turns of a model of `hone serve`, by its /v1/chat/completions. */
import { APICallError } from "@ai-sdk/provider";
import { HoneError } from "../../core/util/errors.js";
import { eventsOf } from "../../serve/openai/events.js";
import { ChatError } from "../../serve/openai/failure.js";
import { request as send, textOf } from "../../serve/openai/http.js";
import type { ChatServer } from "../../serve/openai/server.js";
import type { ChatRequest } from "../../serve/requests.js";
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

/** What is read of an answer, of which hone's server has all in the form of OpenAI's. */
interface Usage {
  readonly prompt_tokens: number;
  readonly completion_tokens: number;
  readonly prompt_tokens_details?: { readonly cached_tokens?: number };
}
interface WrittenCall {
  readonly id?: string;
  readonly function?: { readonly name?: string; readonly arguments?: string };
}
interface Message {
  readonly content?: string | null;
  readonly reasoning_content?: string;
  readonly tool_calls?: readonly WrittenCall[];
}
interface Answer extends Extended {
  readonly choices: readonly { readonly message: Message; readonly finish_reason: string }[];
  readonly usage?: Usage | null;
}
interface Chunk extends Extended {
  readonly choices: readonly { readonly delta: Message; readonly finish_reason: string | null }[];
  readonly usage?: Usage | null;
  readonly error?: { readonly message?: string };
}

type Calls = { id: string; name: string; arguments: string }[];

function said(
  parts: Pick<Said, "reasoning" | "text" | "calls">,
  reason: string | null | undefined,
  usage: Usage | null | undefined,
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

const callOf = ({ id = "", function: { name = "", arguments: text = "" } = {} }: WrittenCall) => ({
  id,
  name,
  arguments: text,
});

/** A turn that has been sampled whole. */
function whole(answer: Answer): Turn {
  const [choice] = answer.choices;
  if (!choice) throw new HoneError("the server's answer has no choice");
  const { content, tool_calls: calls = [], reasoning_content: reasoning = "" } = choice.message;
  const parts = { reasoning, text: content ?? "", calls: calls.map(callOf) };
  return {
    warnings: warningsOf(answer),
    admit: () => undefined,
    sample: async () => said(parts, choice.finish_reason, answer.usage, answer),
  };
}

/** Passes a stream's pieces on, and collects its turn. */
async function collect(
  first: Chunk,
  rest: AsyncIterator<Chunk, undefined>,
  onPiece?: (piece: Piece) => void,
): Promise<Said> {
  const calls: Calls = [];
  let text = "";
  let reasoning = "";
  let reason: string | null = null;
  let usage: Usage | null | undefined;
  for (let chunk: Chunk | undefined = first; chunk; ) {
    usage = chunk.usage ?? usage;
    for (const { delta, finish_reason } of chunk.choices) {
      text += delta.content ?? "";
      reasoning += delta.reasoning_content ?? "";
      onPiece?.(delta as Piece);
      calls.push(...(delta.tool_calls ?? []).map(callOf));
      reason = finish_reason ?? reason;
    }
    chunk = (await rest.next()).value;
  }
  if (reason === null) throw new HoneError("the server's answer ended before the turn did");
  return said({ reasoning, text, calls }, reason, usage, first);
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
    begin: async (options, streamed) => {
      const { abortSignal } = options;
      const request = chatRequestOf(options, name);
      // Ends the request when the caller no longer waits, or nobody reads any more.
      const end = new AbortController();
      const signal = abortSignal ? AbortSignal.any([abortSignal, end.signal]) : end.signal;
      const asked = (body: object) => send(server, "chat/completions", { body, signal });
      try {
        // Its fields that are null are those that the server takes null for.
        if (!streamed) {
          const response = await asked({ ...request, stream: false });
          return whole(JSON.parse(await textOf(response, server, signal)) as Answer);
        }
        const about = { stream: true as const, stream_options: { include_usage: true } };
        const chunks = chunksOf(await asked({ ...request, ...about }));
        const { done, value: first } = await chunks.next();
        if (done) throw new HoneError("the server's answer is empty");
        return {
          warnings: warningsOf(first),
          admit: () => undefined,
          sample: async (onPiece, gone) => {
            const leave = () => end.abort(gone?.reason);
            gone?.addEventListener("abort", leave, { once: true });
            try {
              return await collect(first, chunks, onPiece);
            } catch (error) {
              throw failed(error, request, abortSignal, gone);
            } finally {
              gone?.removeEventListener("abort", leave);
            }
          },
        };
      } catch (error) {
        throw failed(error, request, abortSignal);
      }
    },
  };
}
