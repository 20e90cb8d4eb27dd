/** Requests to OpenAI-compatible servers: what is sent where, redirects, and every failure as a {@link ChatError}. */
import { Agent, EnvHttpProxyAgent, fetch, Headers, type Response } from "undici";
import { textWithin } from "./bounded.js";
import { ChatError, connectionError, errorIn, retryAfter } from "./failure.js";
import { parsed } from "./fields.js";
import { type ChatServer, isOpenAi } from "./server.js";

/** Bytes of an answer at most: a hundred times what the longest answers have. */
const MOST = 8 << 20;

/** Redirects within one server that are followed for one request. */
const REDIRECTS = 3;

/** Variables that OpenAI's own clients send as headers, to OpenAI's servers alone. */
const OPENAI_HEADERS = [
  ["openai-organization", "OPENAI_ORG_ID"],
  ["openai-project", "OPENAI_PROJECT_ID"],
] as const;

function headersFor({ key, url }: ChatServer): Headers {
  const headers = new Headers({ accept: "application/json", "content-type": "application/json", "user-agent": "hone" });
  if (key !== undefined) headers.set("authorization", `Bearer ${key}`);
  for (const [name, variable] of OPENAI_HEADERS) {
    const value = process.env[variable]?.trim();
    if (value && isOpenAi(url)) headers.set(name, value);
  }
  return headers;
}

/** The address of a path below the base URL, whose query stays (Azure's `?api-version=`). */
function below({ url }: ChatServer, path: string): string {
  const at = new URL(url);
  at.pathname = `${at.pathname.replace(/(\/chat\/completions)?\/*$/, "")}/${path}`;
  return at.href;
}

export interface Asked {
  /** JSON; without one the request is a GET. */
  readonly body?: object;
  readonly signal: AbortSignal;
}

/**
 * Sends a request and follows redirects that keep method and body, and only within the server: no other one gets the key or the text.
 *
 * @returns an answer that was not refused, still unread
 * @throws ChatError; the signal's reason when that is aborted
 */
export async function request(server: ChatServer, path: string, { body, signal }: Asked): Promise<Response> {
  const { key } = server;
  const refused = (response: Response, text: string) =>
    new ChatError({ kind: "refused", status: response.status, text }, key);
  let url = below(server, path);
  for (let followed = 0; ; followed++) {
    const headers = headersFor({ ...server, url });
    const sent = body === undefined ? { method: "GET" } : { method: "POST", body: JSON.stringify(body) };
    const dispatcher = dispatcherFor(new URL(url).hostname);
    const response = await reached(
      () => fetch(url, { ...sent, headers, signal, redirect: "manual", dispatcher }),
      server,
      signal,
    );
    const location = response.headers.get("location");
    const { status } = response;
    if (status < 300 || status >= 400 || status === 304 || location === null) {
      // No Content and Reset Content are successes elsewhere; a question is not answered by them.
      if (response.ok && status !== 204 && status !== 205) return response;
      throw refusalOf(response, await textOf(response, server, signal), key);
    }
    await response.body?.cancel();
    if (!URL.canParse(location, url)) {
      throw refused(response, `it redirects, but its Location header is no URL: "${location.slice(0, 200)}"`);
    }
    const next = new URL(location, url);
    const within = next.origin === new URL(url).origin && (status === 307 || status === 308);
    if (!within || followed === REDIRECTS) {
      throw refused(response, `it redirects to ${next.origin}${next.pathname}, and nothing was sent there`);
    }
    url = next.href;
  }
}

/**
 * Every request has its own limit (--judge-timeout, --turn-timeout). Those of Node's own `fetch` end after 300 s without headers, or
 * never, where a process's first connection is closed before it is set up.
 */
const UNLIMITED = { headersTimeout: 0, bodyTimeout: 0 };
const direct = new Agent(UNLIMITED);
let proxied: EnvHttpProxyAgent | undefined;

const isLoopback = (host: string): boolean =>
  /^(localhost|.*\.localhost|127\.\d+\.\d+\.\d+|0\.0\.0\.0|\[::1?\])$/i.test(host);

/**
 * The proxy that the environment names; as curl does, it takes one without "http://", too.
 * @throws ChatError for one that is no URL
 */
function proxyOf(protocol: "http" | "https"): { readonly [proxy in "httpProxy" | "httpsProxy"]?: string } {
  const name = [`${protocol}_proxy`, `${protocol.toUpperCase()}_PROXY`].find((one) => process.env[one]);
  if (name === undefined) return {};
  const given = process.env[name] as string;
  const url = given.includes("://") ? given : `http://${given}`;
  if (/^https?:/i.test(url) && URL.canParse(url)) return { [`${protocol}Proxy`]: url };
  const text = `${name} names no HTTP proxy; give it one like http://127.0.0.1:3128`;
  throw new ChatError({ kind: "refused", status: 0, text, sent: false });
}

/** Through HTTP_PROXY or HTTPS_PROXY, but for NO_PROXY and this machine. */
function dispatcherFor(host: string): Agent | EnvHttpProxyAgent {
  if (isLoopback(host)) return direct;
  // The text of HTTP goes to a proxy as curl sends it: many let CONNECT through for HTTPS alone.
  proxied ??= new EnvHttpProxyAgent({
    ...UNLIMITED,
    ...proxyOf("http"),
    ...proxyOf("https"),
    proxyTunnel: false,
  });
  return proxied;
}

async function reached<T>(work: () => Promise<T>, { key }: ChatServer, signal: AbortSignal): Promise<T> {
  try {
    return await work();
  } catch (error) {
    signal.throwIfAborted();
    throw error instanceof ChatError ? error : connectionError(error, key);
  }
}

/** The whole text of an answer. @throws ChatError for one that is too long, or ends early */
export async function textOf(response: Response, server: ChatServer, signal: AbortSignal): Promise<string> {
  const text = await reached(() => textWithin(response, MOST), server, signal);
  if (text !== undefined) return text;
  const { status } = response;
  throw new ChatError({ kind: "garbled", status, text: `its answer is longer than ${MOST >> 20} MiB` });
}

function refusalOf({ status, headers }: Response, text: string, key: string | undefined): ChatError {
  const after = retryAfter(headers);
  const bare = (kind: "refused" | "page", said: string) => new ChatError({ kind, status, text: said, after }, key);
  if (text.trim() === "") return bare("refused", "an answer without a body");
  const page = pageIn(text);
  if (page !== undefined) return bare("page", page);
  const body = parsed(text);
  if (body === undefined) return bare("refused", text);
  const other = { text: typeof body === "string" ? body : JSON.stringify(body), body, after: undefined };
  const error = errorIn(body) ?? other;
  return new ChatError({ ...error, kind: "refused", status, after: after ?? error.after }, key);
}

/** What a web page is called; undefined for another text. */
export function pageIn(text: string): string | undefined {
  const start = text.trimStart().slice(0, 4000);
  if (!/^(<!--.*?-->\s*)?(<\?xml.*?\?>\s*)?<(!doctype html|html|head|body)\b/is.test(start)) return undefined;
  const title = /<title[^>]*>([^<]*)/i.exec(start)?.[1]?.trim();
  return title ? `a web page ("${title}")` : "a web page";
}
