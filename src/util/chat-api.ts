/** The one way hone talks to OpenAI-compatible chat servers: a client, and what its errors say, never with the key. */
import OpenAI from "openai";
import { printable } from "./text.js";

export interface ChatServer {
  /** Base URL, used as it is: with /v1 where the server has it. */
  readonly url: string;
  readonly key: string | undefined;
}

/**
 * Brings the error bodies of all servers to OpenAI's form, `{"error": {"message": ...}}`: the library loses others
 * (vLLM's `{"object": "error", "message": ...}`, FastAPI's `{"detail": ...}`, LM Studio's `{"error": "..."}`).
 */
async function fetchReadable(input: string | URL | Request, init?: RequestInit): Promise<Response> {
  const response = await fetch(input, init);
  if (response.status < 400) return response;
  const text = await response.text();
  return new Response(JSON.stringify({ error: errorOf(text) }), { status: response.status, headers: response.headers });
}

function errorOf(text: string): object {
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

/** @param retries how often the library itself asks again after a failure */
export function chatClient({ url, key }: ChatServer, retries: number): OpenAI {
  return new OpenAI({
    baseURL: url,
    // Servers on the own machine want no key, the library does.
    apiKey: key ?? "none",
    maxRetries: retries,
    logLevel: "off",
    fetch: fetchReadable,
  });
}

/** Text of a stranger (a server's error) without the key, should it quote it. */
export function withoutKey(text: string, key: string | undefined): string {
  return key === undefined || key === "" ? text : text.replaceAll(key, "[key]");
}

/** One line of what went wrong, with the cause that the library hides ("Connection error." says little). */
export function chatErrorText(error: unknown, key: string | undefined): string {
  const messages: string[] = [];
  let at: unknown = error;
  while (at instanceof Error && messages.length < 4) {
    const code = "code" in at && typeof at.code === "string" ? at.code : "";
    const text = at.message || code;
    if (text !== "" && !messages.includes(text)) messages.push(text);
    at = at.cause;
  }
  const telling = messages.filter((text) => !/^(Connection error\.|fetch failed)$/.test(text));
  const line = ((telling.length > 0 ? telling : messages).join(": ") || String(error))
    .replace(/\s+/g, " ")
    .slice(0, 500);
  return withoutKey(printable(line), key);
}
