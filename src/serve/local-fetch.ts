/**
 * `fetch` to an endpoint of the same thread, without a connection: an agent's client and the endpoint would each write to and
 * read from a socket, which takes as long as the endpoint's own work. The client sees what it would over the socket.
 */
import { tooLarge } from "./errors.js";
import type { Exchange, Incoming, Outgoing } from "./exchange.js";

/** @returns undefined for a request that is not the endpoint's, or in a form that only the real `fetch` takes */
export type LocalFetch = (input: unknown, init?: RequestInit) => Promise<Response> | undefined;

/** Options by which a request to loopback is no other. */
const TAKEN = new Set(["method", "headers", "body", "signal", "cache", "credentials", "keepalive", "mode", "redirect"]);

/** The response, in one piece or as a stream. */
class LocalResponse implements Outgoing {
  headersSent = false;
  #status = 200;
  #headers: Readonly<Record<string, string>> = {};
  #stream: ReadableByteStreamController | undefined;
  #over = false;
  readonly #encoder = new TextEncoder();
  readonly #url: string;
  readonly #on: { answer(response: Response): void; end(): void; cancel(): void };

  /** @param on told of what `fetch` gives, of the response's end, and that nobody reads on */
  constructor(url: string, on: { answer(response: Response): void; end(): void; cancel(): void }) {
    this.#url = url;
    this.#on = on;
  }

  writeHead(status: number, headers: Readonly<Record<string, string>>): void {
    this.#status = status;
    this.#headers = headers;
    this.headersSent = true;
  }

  write(text: string): void {
    if (this.#over) return;
    if (!this.#stream) {
      const body = new ReadableStream({
        type: "bytes",
        start: (controller) => {
          this.#stream = controller;
        },
        cancel: () => {
          this.#over = true;
          this.#on.cancel();
        },
      });
      this.#give(body);
    }
    if (text !== "") this.#stream?.enqueue(this.#encoder.encode(text));
  }

  end(text = ""): void {
    if (this.#over) return;
    if (this.#stream) {
      this.write(text);
      this.#stream.close();
      // Ends a read into the client's own buffer.
      this.#stream.byobRequest?.respond(0);
    } else this.#give(text);
    this.#over = true;
    this.#on.end();
  }

  /** The client has aborted its request. */
  fail(reason: unknown): void {
    this.#over = true;
    this.#stream?.error(reason);
  }

  #give(body: string | ReadableStream): void {
    const response = new Response(body, { status: this.#status, headers: this.#headers });
    this.#on.answer(Object.defineProperty(response, "url", { value: this.#url }));
  }
}

/** @param take begins an exchange */
export function localFetch(origin: string, take: (request: Incoming, response: Outgoing) => Exchange): LocalFetch {
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
    const sent = given instanceof Headers ? given : new Headers(given);
    const value = (name: string) => sent.get(name) ?? undefined;
    const [authorization, key, from] = [value("authorization"), value("x-api-key"), value("origin")];
    return new Promise<Response>((resolve, reject) => {
      signal?.throwIfAborted();
      const request: Incoming = {
        method: verb,
        url: `${pathname}${search}`,
        headers: { host, authorization, "x-api-key": key, origin: from },
        text: async (most) => {
          const text = body ?? "";
          if (text.length > most || (3 * text.length > most && Buffer.byteLength(text) > most)) throw tooLarge(most);
          return text;
        },
      };
      let exchange: Exchange | undefined;
      const abort = () => {
        exchange?.leave();
        response.fail(signal?.reason);
        reject(signal?.reason);
      };
      const response = new LocalResponse(href, {
        answer: resolve,
        end: () => signal?.removeEventListener("abort", abort),
        cancel: () => exchange?.leave(),
      });
      signal?.addEventListener("abort", abort, { once: true });
      exchange = take(request, response);
    });
  };
}
