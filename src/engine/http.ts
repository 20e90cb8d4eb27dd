/** JSON over HTTP with a server of an engine, on connections that stay open. No answer is waited for, or believed, without end. */
import { Agent, type ClientRequest, request } from "node:http";
import { HoneError, messageOf } from "../core/util/errors.js";
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

/** The connections of a thread to one server. */
export class HttpClient {
  readonly #url: URL;
  readonly #agent: Agent;
  readonly #options: ClientOptions;

  constructor(
    readonly url: string,
    options: ClientOptions = {},
    agent = new Agent({ keepAlive: true }),
  ) {
    this.#url = new URL(url);
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
    const body = asked && JSON.stringify(asked);
    const { signal, fresh, seconds = this.#options.seconds ?? SECONDS, most = MOST } = options;
    using limit = new TimeLimit(seconds, () => new NoAnswer(`it has answered nothing for ${seconds} seconds`));
    using ended = anyOf([limit.signal, ...[signal, this.#options.signal].filter((one) => one !== undefined)]);
    const headers =
      body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
    return await new Promise<Answer>((resolve, reject) => {
      ended.signal.throwIfAborted();
      const sent: ClientRequest = request(
        new URL(path, this.#url),
        { method: body === undefined ? "GET" : "POST", headers, agent: fresh ? false : this.#agent },
        (response) => {
          const parts: Buffer[] = [];
          let bytes = 0;
          let shown = 0;
          response.on("data", (part: Buffer) => {
            parts.push(part);
            bytes += part.length;
            if (bytes > most) end(new HoneError(`its answer has more than ${(most / MIB).toFixed(0)} MiB`));
            if (bytes < shown + PROGRESS) return;
            shown = bytes;
            limit.renew();
          });
          response.once("error", (error) => end(new NoAnswer(messageOf(error), { cause: error })));
          response.once("end", () =>
            resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() }),
          );
        },
      );
      let over = false;
      const end = (reason: unknown) => {
        over = true;
        reject(reason);
        sent.destroy();
      };
      sent.on("error", (error: NodeJS.ErrnoException) => {
        if (over) return;
        // The server closes a connection after a number of requests or seconds, possibly just before a request.
        if (!sent.reusedSocket || error.code !== "ECONNRESET") end(new NoAnswer(messageOf(error), { cause: error }));
        else {
          limit.clear();
          resolve(this.ask(path, asked, { ...options, fresh: true }));
        }
      });
      ended.signal.addEventListener("abort", () => end(ended.signal.reason), { once: true });
      sent.end(body);
    });
  }

  close(): void {
    this.#agent.destroy();
  }
}
