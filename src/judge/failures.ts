/** Classifies a failed request: repeat it, change it, give up the question, or give up the judge. Pure. */
import type { APIError } from "openai";
import { type ChatServer, connectionFailure, isApiError, refusalHint } from "../openai/index.js";

/** Causes of a missing verdict; counters have these names. */
export type NoVerdictReason =
  /** The server's, repeatedly. */
  | "rate_limited"
  | "server_error"
  | "timeout"
  | "connection"
  | "bad_response"
  /** The question's. */
  | "too_long"
  | "bad_request"
  /** The judge's answer, also after one correction. */
  | "refused"
  | "cut"
  /** Several judges have no majority. */
  | "divided"
  | "not_json"
  | "no_scores"
  | "wrong_count"
  | "unknown_id"
  | "repeated_id"
  | "out_of_range"
  | "wrong_form";

/** A question without a usable answer. */
export class NoVerdict extends Error {
  override readonly name = "NoVerdict";

  constructor(
    readonly reason: NoVerdictReason,
    message: string,
  ) {
    super(message);
  }
}

/** Parameters that servers may not support; the question is the same without them. */
export type Droppable = "temperature" | "max_tokens" | "response_format";

export type Failure =
  | {
      readonly kind: "retry";
      readonly reason: "rate_limited" | "server_error" | "timeout" | "connection" | "bad_response";
      /** Whether the request reached the server. */
      readonly sent: boolean;
      /** Milliseconds to wait, as requested by the server. */
      readonly after: number | undefined;
    }
  | { readonly kind: "unsupported"; readonly parameter: Droppable }
  | { readonly kind: "no_verdict"; readonly reason: "too_long" | "bad_request" }
  | { readonly kind: "fatal"; readonly hint: string };

/** Connections that were never established. */
const NEVER_SENT = /\b(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)\b/;

function chainOf(error: unknown): string {
  const parts: string[] = [];
  for (let at = error; at instanceof Error && parts.length < 5; at = at.cause) {
    parts.push(at.message, String("code" in at ? at.code : ""));
    // Node tries several addresses and wraps the error of each.
    if (at instanceof AggregateError) parts.push(...at.errors.map((one) => String(one?.code ?? "")));
  }
  return parts.join(" ");
}

/** "3", "Wed, 21 Oct 2026 07:28:00 GMT", or milliseconds in OpenAI's own header. */
export function retryAfter(headers: Headers | undefined, now = Date.now()): number | undefined {
  const own = Number(headers?.get("retry-after-ms") ?? Number.NaN);
  if (Number.isFinite(own)) return Math.max(0, own);
  const text = headers?.get("retry-after");
  if (!text) return undefined;
  const seconds = Number(text);
  const wait = Number.isFinite(seconds) ? seconds * 1000 : Date.parse(text) - now;
  return Number.isFinite(wait) ? Math.max(0, wait) : undefined;
}

const unsupported =
  /unsupported|not support|unrecognized|unknown|unexpected|not permitted|extra inputs|must be|invalid/i;
const tooLong =
  /context (length|size|window)|maximum context|too (long|many tokens|large)|exceed\w* .*(tokens|context)/i;

/** The parameter that a refusal names, if it can be left out. */
function refusedParameter({ param, message }: APIError, sent: ReadonlySet<Droppable>): Droppable | undefined {
  const said = typeof param === "string" ? param : "";
  const names: readonly (readonly [Droppable, RegExp])[] = [
    ["response_format", /response_format|json_schema|json_object|guided|grammar|structured output/i],
    ["max_tokens", /max_(completion_)?tokens/i],
    ["temperature", /temperature/i],
  ];
  const named = names.find(([, pattern]) => pattern.test(said)) ?? names.find(([, pattern]) => pattern.test(message));
  return named && sent.has(named[0]) && (said !== "" || unsupported.test(message)) ? named[0] : undefined;
}

/** @param sent the droppable parameters of the request */
export function classify(error: unknown, timedOut: boolean, sent: ReadonlySet<Droppable>, server: ChatServer): Failure {
  const retry = (reason: (Failure & { kind: "retry" })["reason"], after?: number, reached = true): Failure => ({
    kind: "retry",
    reason,
    sent: reached,
    after,
  });
  const failed = connectionFailure(error);
  if (timedOut || failed === "timeout") return retry("timeout");
  if (failed === "connection") return retry("connection", undefined, !NEVER_SENT.test(chainOf(error)));
  // An answer that ended early, or whose body is not JSON.
  if (!isApiError(error)) return retry(error instanceof SyntaxError ? "bad_response" : "connection");

  const { status = 0, code, message } = error;
  // An answer that is longer than is read.
  if (status === 200) return retry("bad_response");
  if (status === 429) {
    // Waiting does not help when the account's quota is used up.
    if (code === "insufficient_quota") return { kind: "fatal", hint: "its account has no credit left" };
    return retry("rate_limited", retryAfter(error.headers));
  }
  if (status === 400 || status === 422 || status === 501) {
    if (tooLong.test(message) || code === "context_length_exceeded") return { kind: "no_verdict", reason: "too_long" };
    const parameter = refusedParameter(error, sent);
    return parameter ? { kind: "unsupported", parameter } : { kind: "no_verdict", reason: "bad_request" };
  }
  if (status >= 500) {
    const parameter = refusedParameter(error, sent);
    // Some servers answer 500 to a schema that they cannot compile.
    if (parameter === "response_format") return { kind: "unsupported", parameter };
    return retry("server_error", retryAfter(error.headers));
  }
  if (status === 413) return { kind: "no_verdict", reason: "too_long" };
  if (status === 408 || status === 409) return retry("server_error", retryAfter(error.headers));
  const hint = refusalHint("judge", server, status);
  if (hint !== undefined) return { kind: "fatal", hint };
  if (status === 402) return { kind: "fatal", hint: "its account has no credit left" };
  if (status === 404) {
    return { kind: "fatal", hint: "check --judge-model, and whether --judge-url has to end in /v1" };
  }
  return { kind: "no_verdict", reason: "bad_request" };
}
