/** JSON over HTTP with a server of an engine, on connections that stay open. No answer is waited for, or believed, without end. */
import { Agent, errors, request } from "undici";
import { codeOf, HoneError, messageOf } from "../core/util/errors.js";
import { anyOf } from "../core/util/signals.js";
import { TimeLimit } from "../core/util/time-limit.js";

export interface Answer {
  readonly status: number;
  readonly text: string;
}

export interface AskOptions {
  /** Aborting it closes the connection. */
  readonly signal?: AbortSignal | undefined;
  /** On a connection of its own. */
  readonly fresh?: boolean | undefined;
  /** Seconds without progress after which the answer is given up; default the client's. */
  readonly seconds?: number | undefined;
  /** Bytes of the answer at most. */
  readonly most?: number | undefined;
}

export interface ClientOptions {
  /** Of all requests. */
  readonly signal?: AbortSignal | undefined;
  /** Seconds without progress after which an answer is given up. A server computes before it sends anything. */
  readonly seconds?: number | undefined;
}

/** The connection failed, or nothing came for too long. */
export class NoAnswer extends Error {}

const MIB = 1_048_576;
const SECONDS = 900;
const MOST = 16 * MIB;
/** Bytes that count as progress: an answer that comes in crumbs would be waited for through any number of limits. */
const PROGRESS = 16_384;

/** Every answer has its own limit. */
const newAgent = () => new Agent({ connectTimeout: 0, headersTimeout: 0, bodyTimeout: 0 });

/** The server has closed a connection that was kept, after a number of requests or seconds, just before a request. */
function isStale(error: unknown): boolean {
  if (error instanceof errors.SocketError) return (error.socket?.bytesRead ?? 0) > 0;
  return ["ECONNRESET", "EPIPE"].includes(codeOf(error) ?? "");
}

/** The connections of a thread to one server. */
export class HttpClient {
  readonly #agent: Agent;
  readonly #options: ClientOptions;

  constructor(
    readonly url: string,
    options: ClientOptions = {},
    agent = newAgent(),
  ) {
    this.#options = options;
    this.#agent = agent;
  }

  /** A client on the same connections. */
  with(options: ClientOptions): HttpClient {
    return new HttpClient(this.url, { ...this.#options, ...options }, this.#agent);
  }

  /**
   * POSTs a body as JSON, or GETs without one.
   * @throws NoAnswer; HoneError for an answer that is too long; the reason of a signal that is aborted
   */
  async ask(path: string, asked?: object, options: AskOptions = {}): Promise<Answer> {
    const { signal, fresh = false, seconds = this.#options.seconds ?? SECONDS, most = MOST } = options;
    using limit = new TimeLimit(seconds, () => new NoAnswer(`it has answered nothing for ${seconds} seconds`));
    using ended = anyOf([limit.signal, ...[signal, this.#options.signal].filter((one) => one !== undefined)]);
    const sent = asked && { body: JSON.stringify(asked), headers: { "content-type": "application/json" } };
    const dispatcher = fresh ? newAgent() : this.#agent;
    const method = asked ? "POST" : "GET";
    const parts: Buffer[] = [];
    let [bytes, shown, status] = [0, 0, 0];
    try {
      ended.signal.throwIfAborted();
      const response = await request(new URL(path, this.url), { ...sent, method, dispatcher, signal: ended.signal });
      status = response.statusCode;
      for await (const part of response.body as AsyncIterable<Buffer>) {
        parts.push(part);
        bytes += part.length;
        if (bytes > most) throw new HoneError(`its answer has more than ${(most / MIB).toFixed(0)} MiB`);
        if (bytes < shown + PROGRESS) continue;
        shown = bytes;
        limit.renew();
      }
      return { status, text: Buffer.concat(parts).toString() };
    } catch (error) {
      ended.signal.throwIfAborted();
      if (error instanceof HoneError) throw error;
      if (status > 0 || fresh || !isStale(error)) throw new NoAnswer(messageOf(error), { cause: error });
    } finally {
      if (fresh) void dispatcher.destroy();
    }
    return await this.ask(path, asked, { ...options, fresh: true });
  }

  close(): void {
    void this.#agent.destroy();
  }
}
