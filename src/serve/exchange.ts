/** One HTTP request and its answer: JSON, or events as they come. */
import type { IncomingMessage, ServerResponse } from "node:http";
import { ApiError, apiErrorOf, badRequest, tooLarge } from "./errors.js";

/** Times the largest body that is read of a larger one. */
const PATIENCE = 4;

export class Exchange {
  readonly request: IncomingMessage;
  readonly #response: ServerResponse;
  readonly #gone = new AbortController();
  /** Given with the answer, for the server's counts. */
  status = 0;

  /** @param onGone told when the client went away before its answer was whole */
  constructor(request: IncomingMessage, response: ServerResponse, onGone: () => void) {
    this.request = request;
    this.#response = response;
    response.on("close", () => {
      if (response.writableFinished || this.#gone.signal.aborted) return;
      onGone();
      this.abort(new ApiError(499, "client_closed_request", "the client went away"));
    });
    // What is written to a client that went away is lost, and that is all.
    response.on("error", () => undefined);
  }

  /** Aborted when nobody waits for the answer any more. */
  get signal(): AbortSignal {
    return this.#gone.signal;
  }

  abort(reason: Error): void {
    this.#gone.abort(reason);
  }

  /** @throws ApiError (413, 400) for a body that is too large, or is no JSON */
  async body(most: number): Promise<unknown> {
    let parts: Buffer[] = [];
    let size = 0;
    // What is too large is read all the same, as far as patience goes: a client that still sends reads no answer.
    for await (const part of this.request.iterator({ destroyOnReturn: false }) as AsyncIterable<Buffer>) {
      size += part.length;
      if (size <= most) parts.push(part);
      else parts = [];
      if (size > PATIENCE * most) break;
    }
    if (size > most) throw tooLarge(most);
    try {
      return JSON.parse(Buffer.concat(parts).toString("utf8"));
    } catch {
      throw badRequest("The request's body is not valid JSON.");
    }
  }

  send(status: number, type: string, text: string, headers: Readonly<Record<string, string>> = {}): void {
    this.status = status;
    this.#response.writeHead(status, { "content-type": type, "cache-control": "no-store", ...headers }).end(text);
  }

  json(value: object, status = 200, headers: Readonly<Record<string, string>> = {}): void {
    this.send(status, "application/json", JSON.stringify(value), headers);
  }

  /** One event of a stream, which begins with the first. */
  event(value: object | "[DONE]"): void {
    if (!this.#response.headersSent) {
      this.status = 200;
      this.#response.writeHead(200, {
        "content-type": "text/event-stream; charset=utf-8",
        "cache-control": "no-cache",
      });
    }
    this.#response.write(`data: ${value === "[DONE]" ? value : JSON.stringify(value)}\n\n`);
  }

  end(): void {
    this.event("[DONE]");
    this.#response.end();
  }

  /** A stream that has begun ends with the error; a client that went away is told nothing. */
  fail(error: unknown): void {
    const failure = apiErrorOf(error);
    if (this.#response.headersSent) {
      this.event(failure.body);
      this.#response.end();
      return;
    }
    // A body that was not read to its end would be taken for the next request.
    const close = failure.status === 413 || failure.status === 503 ? { connection: "close" } : {};
    const retry = failure.status === 429 ? { "retry-after": "1" } : {};
    this.json(failure.body, failure.status, { ...close, ...retry });
  }
}
