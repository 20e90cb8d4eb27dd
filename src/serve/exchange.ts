/** One HTTP request and its response: JSON, or a stream of events. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { parseJson, toJson } from "../util/index.js";
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

export class Exchange {
  readonly request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #gone = new AbortController();
  /** Status of the response, for the server's metrics. */
  status = 0;
  /** Of the route's dialect. */
  errors: ErrorForm = openAiErrors;

  /** @param onGone called when the client disconnects before the response is complete */
  constructor(request: IncomingMessage, response: ServerResponse, onGone: () => void) {
    this.request = request;
    this.#response = response;
    response.on("close", () => {
      if (response.writableFinished || this.#gone.signal.aborted) return;
      onGone();
      this.abort(new ApiError(499, "client_closed_request", "the client went away"));
    });
    // Writing to a disconnected client fails; that is expected.
    response.on("error", () => undefined);
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
    let parts: Buffer[] = [];
    let size = 0;
    // An oversized body is read up to a limit, since a client that still sends does not read the response.
    for await (const part of this.request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      size += part.length;
      if (size <= most) parts.push(part);
      else parts = [];
      if (size > PATIENCE * most) break;
    }
    if (size > most) throw tooLarge(most);
    let body: unknown;
    try {
      body = parseJson(Buffer.concat(parts).toString("utf8"));
    } catch {
      throw badRequest("The request's body is not valid JSON.");
    }
    if (isDeep(body, MOST_DEPTH)) throw badRequest(`The request's body is nested more than ${MOST_DEPTH} levels deep.`);
    return body;
  }

  send(status: number, type: string, text: string, headers: Readonly<Record<string, string>> = {}): void {
    this.status = status;
    this.#response.writeHead(status, { "content-type": type, "cache-control": "no-store", ...headers }).end(text);
  }

  json(value: object, status = 200, headers: Readonly<Record<string, string>> = {}): void {
    this.send(status, "application/json", toJson(value), headers);
  }

  #write(type: string, text: string): void {
    if (!this.#response.headersSent) {
      this.status = 200;
      this.#response.writeHead(200, { "content-type": type, "cache-control": "no-cache" });
    }
    this.#response.write(text);
  }

  /** Sends one event; the first starts the stream. */
  event(value: object | "[DONE]", name?: string): void {
    const data = value === "[DONE]" ? value : toJson(value);
    this.#write("text/event-stream; charset=utf-8", `${name ? `event: ${name}\n` : ""}data: ${data}\n\n`);
  }

  /** Sends one line of a stream of JSON. */
  line(value: object): void {
    this.#write("application/x-ndjson", `${toJson(value)}\n`);
  }

  /** @param mark whether the dialect marks the end of a stream of events with `[DONE]` */
  end(mark = true): void {
    if (mark) this.event("[DONE]");
    this.#response.end();
  }

  /** If a stream has begun, the error is its last event. A disconnected client gets nothing. */
  fail(error: unknown): void {
    const failure = apiErrorOf(error);
    if (this.#response.headersSent) {
      const { body, event } = this.errors;
      if (event === "lines") this.line(body(failure));
      else {
        const { name, data } = event(failure);
        this.event(data, name);
      }
      this.#response.end();
      return;
    }
    // Unread bytes of the body would be parsed as the next request.
    const close = failure.status === 413 || failure.status === 503 ? { connection: "close" } : {};
    const retry = failure.status === 429 ? { "retry-after": "1" } : {};
    this.json(this.errors.body(failure), failure.status, { ...close, ...retry });
  }
}
