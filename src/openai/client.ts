/** Access to OpenAI-compatible chat servers: the client, and error messages without the API key. */
import type OpenAI from "openai";
import type { APIError } from "openai";
import { printable, textWithin } from "../util/index.js";
import { type ChatServer, isOpenAi } from "./server.js";

/** Bytes of an answer at most: a hundred times what the longest answers have. */
const MOST = 8 << 20;

/** Redirects within one server that are followed for one request. */
const REDIRECTS = 3;

/**
 * The library takes more than the key from the environment (OPENAI_ORG_ID, OPENAI_PROJECT_ID, OPENAI_ADMIN_KEY,
 * OPENAI_CUSTOM_HEADERS): to other servers than OpenAI's go these headers of its own and no more.
 */
const PLAIN_HEADERS = ["accept", "content-type", "user-agent", "authorization"];

function headersFor(url: string, init: RequestInit): Headers {
  const headers = new Headers(init.headers);
  if (isOpenAi(url)) return headers;
  return new Headers([...headers].filter(([name]) => PLAIN_HEADERS.includes(name)));
}

/**
 * The library's error for this answer. `Response` takes no body with some statuses (304) and other statuses not at all
 * (999), so the status is put over one that it takes. Thrown by `fetch`, an error would count as a failed connection.
 */
function refusal({ status, headers }: Response, error: object): Response {
  const response = new Response(JSON.stringify({ error }), { headers });
  return Object.defineProperties(response, { status: { value: status }, ok: { value: false } });
}

/** Follows redirects that keep method and body, and only within the server: no other one gets the key or the text. */
async function fetchWithin(input: string | URL | Request, init: RequestInit = {}): Promise<Response> {
  let url = input instanceof Request ? input.url : String(input);
  for (let followed = 0; ; followed++) {
    const response = await fetch(url, { ...init, headers: headersFor(url, init), redirect: "manual" });
    const location = response.headers.get("location");
    const { status } = response;
    if (status < 300 || status >= 400 || status === 304 || location === null) return response;
    await response.body?.cancel();
    if (!URL.canParse(location, url)) {
      const message = `it redirects, but its Location header is no URL: "${location.slice(0, 200)}"`;
      return refusal(response, { message });
    }
    const next = new URL(location, url);
    const within = next.origin === new URL(url).origin && (status === 307 || status === 308);
    if (!within || followed === REDIRECTS) {
      const message = `it redirects to ${next.origin}${next.pathname}, and nothing was sent there`;
      return refusal(response, { message });
    }
    url = next.href;
  }
}

/**
 * Brings the error bodies of all servers to OpenAI's form, `{"error": {"message": ...}}`: the library loses others
 * (vLLM's `{"object": "error", "message": ...}`, FastAPI's `{"detail": ...}`, LM Studio's `{"error": "..."}`).
 */
async function fetchReadable(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const response = await fetchWithin(input, init);
  const text = await textWithin(response, MOST);
  if (text === undefined) return refusal(response, { message: `its answer is longer than ${MOST >> 20} MiB` });
  // No Content and Reset Content are successes elsewhere; a question is not answered by them.
  const { ok, status, headers } = response;
  if (ok && status !== 204 && status !== 205) return new Response(text, { status, headers });
  return refusal(response, errorOf(text));
}

function errorOf(text: string): object {
  if (text.trim() === "") return { message: "an answer without a body" };
  let body: unknown;
  try {
    body = JSON.parse(text);
  } catch {
    return { message: text.slice(0, 500) };
  }
  if (typeof body !== "object" || body === null) return { message: String(body) };
  const { error, message, detail, ...rest } = body as Record<string, unknown>;
  if (typeof error === "object" && error !== null) return error;
  const said = error ?? message ?? detail;
  return { ...rest, message: typeof said === "string" ? said : JSON.stringify(said ?? body).slice(0, 500) };
}

/** Loaded with the first client: its 150 files would take a third of the start of every command. */
let library: typeof import("openai") | undefined;

/** Whether a client's request was refused or failed. The library's errors exist once it is loaded. */
export const isApiError = (error: unknown): error is APIError =>
  library !== undefined && error instanceof library.APIError;

/** What of the connection made a client's request fail; undefined for an answer and for other errors. */
export function connectionFailure(error: unknown): "timeout" | "connection" | undefined {
  if (library === undefined || !(error instanceof library.APIConnectionError)) return undefined;
  return error instanceof library.APIConnectionTimeoutError ? "timeout" : "connection";
}

/** @param retries how often the library itself repeats a failed request */
export const chatClient = (server: ChatServer, retries: number): Promise<OpenAI> =>
  clientOf(server, retries, fetchReadable);

/** A client of a server of hone's, which may stream: answers are not read before they are passed on. */
export const streamingClient = (server: ChatServer): Promise<OpenAI> => clientOf(server, 0, fetchWithin);

async function clientOf({ url, key }: ChatServer, retries: number, fetch: typeof fetchWithin): Promise<OpenAI> {
  library ??= await import("openai");
  return new library.OpenAI({
    baseURL: url,
    // The library requires a key and would otherwise take one from the environment; the header overrides it.
    apiKey: key ?? "none",
    defaultHeaders: { authorization: key === undefined ? null : `Bearer ${key}` },
    maxRetries: retries,
    logLevel: "off",
    fetch,
  });
}

/** Removes the key from a server's error text. */
export function withoutKey(text: string, key: string | undefined): string {
  return key === undefined || key === "" ? text : text.replaceAll(key, "[key]");
}

/** One line about an error, with the cause that the library hides ("Connection error." alone says little). */
export function chatErrorText(error: unknown, key: string | undefined): string {
  const messages: string[] = [];
  let at: unknown = error;
  while (at instanceof Error && messages.length < 4) {
    const code = "code" in at && typeof at.code === "string" ? at.code : "";
    const text = at.message || code;
    if (text !== "" && !messages.includes(text)) messages.push(text);
    at = at.cause;
  }
  const informative = messages.filter((text) => !/^(Connection error\.|fetch failed)$/.test(text));
  const line = ((informative.length > 0 ? informative : messages).join(": ") || String(error))
    .replace(/\s+/g, " ")
    .slice(0, 500);
  return withoutKey(printable(line), key);
}
