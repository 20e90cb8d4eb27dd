/**
 * `fetch` to an endpoint of the same thread, without a connection: an agent's client and the endpoint would each write to and
 * read from a socket, which takes as long as the endpoint's own work. The client sees what it would over the socket.
 */
import { onAbort, unlessAborted } from "../core/util/signals.js";
import { tooLarge } from "./errors.js";
import type { Exchange, Incoming } from "./exchange.js";

/** @returns undefined for a request that is not the endpoint's, or in a form that only the real `fetch` takes */
export type LocalFetch = (input: unknown, init?: RequestInit) => Promise<Response> | undefined;

/** Options by which a request to loopback is no other. */
const TAKEN = new Set(["method", "headers", "body", "signal", "cache", "credentials", "keepalive", "mode", "redirect"]);

/** @param take begins an exchange, and says when it has ended */
export function localFetch(
  origin: string,
  take: (request: Incoming) => { readonly exchange: Exchange; readonly ended: Promise<void> },
): LocalFetch {
  const { host } = new URL(origin);
  return (input, init = {}) => {
    if (typeof input !== "string" && !(input instanceof URL)) return undefined;
    const address = String(input);
    if (!address.startsWith(`${origin}/`)) return undefined;
    const { method = "GET", headers: given, body = null, signal } = init;
    const verb = method.toUpperCase();
    if (body !== null && (typeof body !== "string" || verb === "GET" || verb === "HEAD")) return undefined;
    if (Object.entries(init).some(([name, value]) => value !== undefined && !TAKEN.has(name))) return undefined;
    const { pathname, search, href } = new URL(address);
    const request: Incoming = {
      method: verb,
      url: `${pathname}${search}`,
      headers: { ...Object.fromEntries(given instanceof Headers ? given : new Headers(given)), host },
      text: async (most) => {
        const text = body ?? "";
        if (text.length > most || (3 * text.length > most && Buffer.byteLength(text) > most)) throw tooLarge(most);
        return text;
      },
    };
    const answer = async () => {
      signal?.throwIfAborted();
      const { exchange, ended } = take(request);
      const leaving = onAbort(signal ?? undefined, () => exchange.leave(signal?.reason));
      void ended.then(() => leaving[Symbol.dispose]());
      const { body, ...about } = await unlessAborted(exchange.response, signal ?? undefined);
      return Object.defineProperty(new Response(body, about), "url", { value: href });
    };
    return answer();
  };
}
