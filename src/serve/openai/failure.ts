/** What a chat server's failure is: who is at fault, and whether it passes. Codes are read; words only where no code is left to tell. */
import { cutText, printable } from "../../core/util/text.js";
import { type Fields, isFields, parsed } from "./fields.js";
import { type ChatRole, type ChatServer, refusalHint } from "./server.js";

/** What is known of a failure. */
export interface FailureFacts {
  /** `page`: the answer is a web page. `garbled`: it is no chat completion and no error. */
  readonly kind: "refused" | "page" | "garbled" | "connection" | "timeout";
  /** The server's own text, or the connection's. */
  readonly text: string;
  /** Of HTTP, or of the error where that came with 200; 0 without an answer. */
  readonly status: number;
  /** Codes and types of the error, whatever fields have them. */
  readonly codes?: string;
  /** The field that the error names. */
  readonly param?: string;
  /** Milliseconds to wait, as the server asks. */
  readonly after?: number | undefined;
  /** Whether the request reached the server. */
  readonly sent?: boolean;
  /** The error as the server sent it. */
  readonly body?: unknown;
}

/** A chat request without an answer. Its message is one line without the key. */
export class ChatError extends Error implements FailureFacts {
  override readonly name = "ChatError";
  readonly kind;
  readonly text;
  readonly status;
  readonly codes;
  readonly param;
  readonly after;
  readonly sent;
  readonly body;

  /** @param key is taken out of the texts */
  constructor(facts: FailureFacts, key?: string) {
    const text = oneLine(facts.text, key);
    super(facts.status === 0 ? text : `${facts.status} ${text}`);
    this.kind = facts.kind;
    this.text = text;
    this.status = facts.status;
    this.codes = facts.codes ?? "";
    this.param = facts.param ?? "";
    this.after = facts.after;
    this.sent = facts.sent ?? true;
    this.body = facts.body;
  }

  /** The same for refusals that differ only in what differs from request to request: numbers, ids, times. */
  get likeness(): string {
    return `${this.status} ${this.codes} ${this.text.replace(/\w*\d\w*/g, "#")}`;
  }
}

function oneLine(text: string, key: string | undefined): string {
  const keyless = (from: string) => (key ? from.replaceAll(key, "[key]") : from);
  const line = keyless(printable(keyless(text).replace(/\s+/g, " ").trim()));
  // A query may have a key in it.
  return cutText(line.replace(/\?[\w.~%-]+=[^\s"'`)\]}>]*/g, "?..."), 500);
}

/**
 * - `busy`, `broken`, `garbled`, `connection`, `timeout`: may pass by itself
 * - `no_credit`, `key`, `model`, `address`: nothing can be asked
 * - `too_long`, `filtered`: the question's
 * - `refused`: the request's, the question's, the key's or the model's
 */
export type Cause = Passing | "no_credit" | "key" | "model" | "address" | "too_long" | "filtered" | "refused";

const NO_CREDIT_CODE =
  /(insufficient|exceeded|exhausted|not_?enough|out_?of|no|pre_?consume)_?\w*(quota|balance|credit|fund)|(quota|balance|credits?)\w*(insufficient|exhausted|exceeded|empty|failed)|arrear|overdue|billing|payment|\b1113\b/i;
/** OpenAI's, which never passes by itself. */
const OPENAI_NO_CREDIT = /\binsufficient_quota\b/;
/** With 429 and no code, text alone tells an empty account from a limit of requests. */
const NO_CREDIT_TEXT =
  /insufficient \w*\s?(quota|balance|credit|fund)|(credit|account) balance|(quota|credits?|balance) (is |has been )?(exhausted|used up|depleted)|out of credit|no credit|top ?up|recharge|current quota|billing|余额|額度|额度|欠费|欠費|充值/i;
const RATE_TEXT =
  /per[ -]?(minute|second|hour|day)|\b[rt]p[md]\b|rate.?limit|requests_per|频率|速率|分钟|每秒|每天|并发/i;
const KEY_CODE =
  /invalid_?\w*(api_?key|token|authentication|credential)|authentication_error|unauthori[sz]ed|unauthenticated/i;
const MODEL_CODE =
  /model_?\w*not_?(found|exist|available|supported|open)|model_?not|(invalid|unknown|unsupported|no_such)_?model|deployment_?not_?found|no_available_channel/i;
const FILTER_CODE =
  /content_?(filter|policy|blocked)|responsible_?ai|data_?inspection|moderation|sensitive|flagged|safety|\b1301\b/i;
const TOO_LONG_CODE = /context_?(length|window|size)|exceed_context|prompt_too_long|string_above_max|\b1261\b/i;
const TOO_LONG_TEXT =
  /context (length|size|window)|maximum context|too (long|many tokens|large)|exceed\w* .*(tokens|context)|上下文|超长|过长/i;

export const isTooLong = ({ status, codes, text }: ChatError): boolean =>
  status === 413 || TOO_LONG_CODE.test(codes) || (status < 500 && status !== 429 && TOO_LONG_TEXT.test(text));

export function causeOf(error: ChatError): Cause {
  const { kind, status, codes, text, after, body } = error;
  if (kind !== "refused" && kind !== "page") return kind;
  if (kind === "page") {
    if (status >= 500 || status === 429 || status === 408) return "broken";
    // A proxy's page about the question: its size, or words that it takes for an attack.
    if (status === 413) return "too_long";
    if (status === 401) return "key";
    return status === 400 || status === 403 || status === 422 ? "refused" : "address";
  }
  if (status === 402 || OPENAI_NO_CREDIT.test(codes)) return "no_credit";
  if (status === 429) {
    // A wait that the server names ends.
    return namesCredit(error) && !RATE_TEXT.test(text) && after === undefined ? "no_credit" : "busy";
  }
  if (NO_CREDIT_CODE.test(codes)) return "no_credit";
  if (MODEL_CODE.test(codes)) return "model";
  if (status === 401 || KEY_CODE.test(codes)) return "key";
  if (status === 204 || status === 205 || (status >= 300 && status < 400)) return "address";
  // No path of an API, whose errors are JSON.
  if ((status === 404 || status === 405) && body === undefined) return "address";
  if (FILTER_CODE.test(codes)) return "filtered";
  if (isTooLong(error)) return "too_long";
  if (status === 408 || status === 409 || status === 425 || (status >= 500 && status !== 501)) return "broken";
  return "refused";
}

/** Whether it passes by itself, so that the same request is worth another attempt. */
export const mayPass = (cause: Cause): cause is Passing => (PASSING as readonly string[]).includes(cause);

const PASSING = ["busy", "broken", "garbled", "connection", "timeout"] as const;
export type Passing = (typeof PASSING)[number];

/** Whether a refusal speaks of the account's money. */
const namesCredit = ({ codes, text }: ChatError): boolean => NO_CREDIT_CODE.test(codes) || NO_CREDIT_TEXT.test(text);

/** What the user can do about a server that takes no request; undefined where only its own text tells. */
export function adviceFor(role: ChatRole, server: ChatServer, error: ChatError): string | undefined {
  const cause = causeOf(error);
  const { status, codes } = error;
  if (status === 0 && TLS.test(codes)) {
    return NO_TLS.test(`${codes} ${error.text}`) || error.text.endsWith("speak TLS")
      ? `give its --${role}-url with http://`
      : "name the certificate of its issuer in NODE_EXTRA_CA_CERTS=FILE";
  }
  if (cause === "no_credit" || (status === 403 && namesCredit(error))) return "its account has no credit left";
  if (cause === "key" || status === 403) return refusalHint(role, server, 401);
  if (cause === "address") return refusalHint(role, server, 308);
  if (cause === "model") return `check --${role}-model`;
  return status === 404 ? `check --${role}-model, and whether --${role}-url has to end in /v1` : undefined;
}

/** The first of these fields with something to read in it. */
const firstOf = (from: Fields, ...names: readonly string[]) =>
  names.map((name) => from[name]).find((value) => value !== undefined && value !== null && value !== "");

const TEXTS = [
  "message",
  "msg",
  "error_msg",
  "errmsg",
  "error_message",
  "status_msg",
  "detail",
  "details",
  "description",
];
const CODES = ["code", "type", "status", "error_code", "errcode", "status_code", "name"];

/**
 * The error in a server's JSON: OpenAI's `{"error": {"message": ...}}`, vLLM's without the frame, FastAPI's `{"detail": ...}`, LM
 * Studio's `{"error": "..."}`, Gemini's in a list, MiniMax's `base_resp`, one within another's text (OpenRouter's `metadata.raw`).
 *
 * @returns undefined where there is no text of an error
 */
export function errorIn(value: unknown): Omit<FailureFacts, "kind"> | undefined {
  const body = Array.isArray(value) ? value[0] : value;
  if (!isFields(body)) return undefined;
  const frame = firstOf(body, "error", "errors", "base_resp");
  const inner = Array.isArray(frame) ? frame[0] : frame;
  const error: Fields = isFields(inner) ? inner : { ...body, ...(inner === undefined ? {} : { message: inner }) };
  const said = firstOf(error, ...TEXTS) ?? (isFields(inner) ? (firstOf(body, ...TEXTS) ?? inner) : undefined);
  if (said === undefined) return undefined;
  const metadata = isFields(error.metadata) ? error.metadata : {};
  const raw = rawError(metadata.raw);
  const own = typeof said === "string" ? said : JSON.stringify(said);
  const text = raw === undefined || own.includes(raw.text) ? own : `${own}: ${raw.text}`;
  const codes = [
    ...CODES.flatMap((name) => [error[name], body[name]]),
    raw?.codes,
    "flagged_input" in metadata ? "flagged" : "",
  ];
  const param = firstOf(error, "param") ?? raw?.param;
  const readable = codes.filter((code) => typeof code === "string" || typeof code === "number");
  return {
    text,
    status: Number(readable.find((code) => /^[45]\d\d$/.test(String(code))) ?? 0),
    codes: [...new Set(readable)].join(" "),
    param: typeof param === "string" ? param : "",
    after: waitIn(`${text} ${JSON.stringify(error.details ?? "")}`),
    body: isFields(inner) ? inner : error,
  };
}

/** What another server said, as text or JSON. */
function rawError(raw: unknown): { text: string; codes?: string; param?: string } | undefined {
  if (typeof raw !== "string" || raw.trim() === "") return undefined;
  const inner = errorIn(parsed(raw));
  // No JSON: a text of its own.
  return inner ? { text: inner.text, codes: inner.codes ?? "", param: inner.param ?? "" } : { text: raw };
}

/** "2", "1.5s", "700ms", "1m30s", in milliseconds. */
function durationOf(text: string): number | undefined {
  const match = /^\s*(?:(\d+)h)?(?:(\d+)m(?!s))?(?:(\d+(?:\.\d+)?)(ms|s)?)?\s*$/.exec(text);
  if (!match || match[0].trim() === "") return undefined;
  const [, hours = "0", minutes = "0", rest = "0", unit] = match;
  return 3_600_000 * Number(hours) + 60_000 * Number(minutes) + Number(rest) * (unit === "ms" ? 1 : 1000);
}

/** "Please try again in 1.2s", Gemini's "retryDelay": "36s", "请在 20 秒后重试". */
function waitIn(text: string): number | undefined {
  const match =
    /(?:try again|retry)\w*\s(?:in|after)\s((?:\d+h)?(?:\d+m(?!s))?(?:\d+(?:\.\d+)?\s?(?:ms|s))?)/i.exec(text) ??
    /"retryDelay":\s*\\?"([\d.]+s)/.exec(text) ??
    /(\d+)\s*秒[后後]/.exec(text);
  const wait = match?.[1] ? durationOf(match[1].replace(/\s/g, "")) : undefined;
  return wait !== undefined && wait > 0 ? wait : undefined;
}

/** "3", "1.5s", "Wed, 21 Oct 2026 07:28:00 GMT", or OpenAI's milliseconds; undefined where no wait is named, or none is left. */
export function retryAfter(headers: Headers, now = Date.now()): number | undefined {
  const own = Number(headers.get("retry-after-ms") || Number.NaN);
  const text = headers.get("retry-after") ?? "";
  const wait = Number.isFinite(own) ? own : (durationOf(text) ?? Date.parse(text) - now);
  return wait > 0 ? wait : undefined;
}

/** A certificate that is not trusted, or no TLS at all: it stays so. */
const TLS = /CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY)|ERR_TLS|ERR_SSL|EPROTO/;
/** What is no TLS, as OpenSSL tells it. */
const NO_TLS = /WRONG_VERSION_NUMBER|wrong version number|packet length too long/i;

/** What `fetch` never sends, or never hands on, in its words and in ours. */
const LASTING: readonly (readonly [RegExp, string])[] = [
  [/^bad port$/, "its port is one that no HTTP client asks"],
  // Without a word, where it has no window to ask in.
  [/^$/, "a proxy before it wants a name and a password (407)"],
];

/** Connections that were never established. */
const NEVER_SENT = /^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|EHOSTUNREACH|ENETUNREACH|UND_ERR_CONNECT_TIMEOUT)$/;

/** A failed connection, with the cause that `fetch` hides ("fetch failed" says little). */
export function connectionError(error: unknown, key: string | undefined): ChatError {
  const texts: string[] = [];
  const codes: string[] = [];
  const codeOf = (one: unknown) => (isFields(one) && typeof one.code === "string" ? one.code : "");
  for (let at = error; at instanceof Error && texts.length < 4; at = at.cause) {
    codes.push(codeOf(at));
    // Node tries several addresses and wraps the error of each.
    if (at instanceof AggregateError) codes.push(...at.errors.map(codeOf));
    const text = at.message || codeOf(at);
    if (text !== "fetch failed" && !texts.includes(text)) texts.push(text);
  }
  const tls = codes.find((code) => TLS.test(code));
  if (tls !== undefined) {
    const why = texts.join(": ");
    const text = NO_TLS.test(`${tls} ${why}`)
      ? "it does not speak TLS"
      : `its certificate is not trusted (${why || tls})`;
    return new ChatError({ kind: "refused", status: 0, text, codes: tls, sent: false }, key);
  }
  const [, lasting] = LASTING.find(([words]) => texts.some((text) => words.test(text))) ?? [];
  if (lasting !== undefined) return new ChatError({ kind: "refused", status: 0, text: lasting, sent: false }, key);
  const sent = !codes.some((code) => NEVER_SENT.test(code));
  return new ChatError({ kind: "connection", status: 0, text: texts.join(": ") || String(error), sent }, key);
}
