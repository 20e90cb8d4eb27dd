/** One HTTP request and its response: JSON, or a stream of events; by a connection, or within this thread. */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from "node:http";
import { parsed } from "../chat/formats/format.js";
import { toJson } from "../core/util/json.js";
import { unlessAborted } from "../core/util/signals.js";
import { ApiError, apiErrorOf, badRequest, type ErrorForm, openAiErrors, tooLarge } from "./errors.js";

/** More than schemas of tools may have, so that these are refused by their name. */
const MOST_DEPTH = 100;
/** A body over the limit is still read, up to this multiple of the limit. */
const PATIENCE = 4;

/** Whether a JSON value is nested deeper than a number of levels. */
export function isDeep(value: unknown, most: number): boolean {
  if (typeof value !== "object" || value === null) return false;
  const items: unknown[] = Array.isArray(value) ? value : Object.values(value);
  return most === 0 || items.some((item) => isDeep(item, most - 1));
}

/** A request, from a socket or from this thread. */
export interface Incoming {
  readonly method?: string | undefined;
  readonly url?: string | undefined;
  readonly headers: Pick<IncomingHttpHeaders, "host" | "origin" | "authorization"> & {
    readonly "x-api-key"?: string | readonly string[] | undefined;
  };
  /** @throws ApiError (413) where it has more than so many bytes */
  text(most: number): Promise<string>;
}

/** What is answered: as a whole, or as a stream that goes on. */
export interface Outgoing {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string | ReadableStream;
}

async function textOf(request: IncomingMessage, most: number): Promise<string> {
  let parts: Buffer[] = [];
  let size = 0;
  // An oversized body is read up to a limit, since a client that still sends does not read the response.
  for await (const part of request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
    size += part.length;
    if (size <= most) parts.push(part);
    else parts = [];
    if (size > PATIENCE * most) break;
  }
  if (size > most) throw tooLarge(most);
  return Buffer.concat(parts).toString("utf8");
}

/** A request of a connection. */
export function incomingOf(request: IncomingMessage): Incoming {
  const { method, url, headers } = request;
  return { method, url, headers, text: (most) => textOf(request, most) };
}

/** Writes what is answered to a connection; the client goes away when that closes. */
export async function writeTo(response: ServerResponse, exchange: Exchange): Promise<void> {
  response.on("close", () => {
    if (!response.writableFinished) exchange.leave();
  });
  // Writing to a disconnected client fails; that is expected.
  response.on("error", () => undefined);
  const { status, headers, body } = await exchange.response;
  response.writeHead(status, headers);
  if (typeof body === "string") {
    response.end(body);
    return;
  }
  try {
    for await (const part of body) response.write(part);
  } catch {
    // The client has left.
  }
  response.end();
}

/** What a route answers to. */
export type Reply = Pick<Exchange, "signal" | "json" | "event" | "end">;

const encoder = new TextEncoder();

export class Exchange {
  readonly request: Incoming;
  /** Known as soon as it begins. */
  readonly response: Promise<Outgoing>;
  #answer: (response: Outgoing) => void = () => undefined;
  #stream: ReadableByteStreamController | undefined;
  #left = false;
  readonly #gone = new AbortController();
  /** Status of the response, for the server's metrics. */
  status = 0;
  /** Of the route's dialect. */
  errors: ErrorForm = openAiErrors;

  readonly #onGone: () => void;

  /** @param onGone called when the client goes away before the response is complete */
  constructor(request: Incoming, onGone: () => void) {
    this.request = request;
    this.response = new Promise((resolve) => {
      this.#answer = resolve;
    });
    this.#onGone = onGone;
  }

  /** The client has gone away before the response is complete. @param reason what its stream ends with, if it still reads */
  leave(reason?: unknown): void {
    this.#left = true;
    this.#stream?.error(reason);
    if (this.#gone.signal.aborted) return;
    this.#onGone();
    this.abort(new ApiError(499, "client_closed_request", "the client went away"));
  }

  /** Aborted when the client has disconnected. */
  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  abort(reason: Error): void {
    this.#gone.abort(reason);
  }

  /** @throws ApiError (413, 400) for a body that is too large or not JSON */
  async body(most: number): Promise<unknown> {
    // The rest of a body may never come: a server that ends does not wait for it.
    const body = parsed(await unlessAborted(this.request.text(most), this.signal));
    if (body === undefined) throw badRequest("The request's body is not valid JSON.");
    if (isDeep(body, MOST_DEPTH)) throw badRequest(`The request's body is nested more than ${MOST_DEPTH} levels deep.`);
    return body;
  }

  send(status: number, type: string, text: string, headers: Readonly<Record<string, string>> = {}): void {
    this.status = status;
    this.#answer({ status, headers: { "content-type": type, "cache-control": "no-store", ...headers }, body: text });
  }

  json(value: object, status = 200, headers: Readonly<Record<string, string>> = {}): void {
    this.send(status, "application/json", toJson(value), headers);
  }

  /** Sends one event; the first starts the stream. */
  event(value: object | "[DONE]", name?: string): void {
    this.#stream ??= this.#begin();
    const data = value === "[DONE]" ? value : toJson(value);
    // A stream that nobody reads ends, also where it begins only now.
    if (this.#left) this.#stream.error();
    else this.#stream.enqueue(encoder.encode(`${name ? `event: ${name}\n` : ""}data: ${data}\n\n`));
  }

  #begin(): ReadableByteStreamController {
    let stream!: ReadableByteStreamController;
    const body = new ReadableStream({
      type: "bytes",
      start: (controller) => {
        stream = controller;
      },
      cancel: () => this.leave(),
    });
    this.status = 200;
    const headers = { "content-type": "text/event-stream; charset=utf-8", "cache-control": "no-cache" };
    this.#answer({ status: 200, headers, body });
    return stream;
  }

  /** @param mark whether the dialect marks the end of a stream of events with `[DONE]` */
  end(mark = true): void {
    if (mark) this.event("[DONE]");
    if (this.#left) return;
    this.#stream?.close();
    // Ends a read into the client's own buffer.
    this.#stream?.byobRequest?.respond(0);
  }

  /** If a stream has begun, the error is its last event. A disconnected client gets nothing. */
  fail(error: unknown): void {
    const failure = apiErrorOf(error);
    if (this.#stream) {
      const { name, data } = this.errors.event(failure);
      this.event(data, name);
      this.end(false);
      return;
    }
    // Unread bytes of the body would be parsed as the next request.
    const close = failure.status === 413 || failure.status === 503 ? { connection: "close" } : {};
    const retry = failure.status === 429 ? { "retry-after": "1" } : {};
    this.json(this.errors.body(failure), failure.status, { ...close, ...retry });
  }
}
