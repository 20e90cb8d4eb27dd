/** JSON over HTTP with a server of an engine, on connections that stay open. */
import { Agent, type ClientRequest, request } from "node:http";

export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** The connections of a thread to one server. */
export class HttpClient {
  readonly #url: URL;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(readonly url: string) {
    this.#url = new URL(url);
  }

  /**
   * POSTs a body as JSON, or GETs without one. Aborting the signal closes the connection.
   * @param fresh on a connection of its own
   * @throws the error of the connection; the signal's, when it is aborted
   */
  ask(path: string, body?: object, signal?: AbortSignal, fresh = false): Promise<Answer> {
    return this.#send(path, body === undefined ? undefined : JSON.stringify(body), signal, fresh);
  }

  close(): void {
    this.#agent.destroy();
  }

  #send(path: string, body: string | undefined, signal?: AbortSignal, fresh = false): Promise<Answer> {
    return new Promise((resolve, reject) => {
      const headers =
        body === undefined ? {} : { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
      const where = new URL(path, this.#url);
      const options = {
        method: body === undefined ? "GET" : "POST",
        headers,
        agent: fresh ? false : this.#agent,
        ...(signal ? { signal } : {}),
      };
      const sent: ClientRequest = request(where, options, (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.once("error", reject);
        response.once("end", () =>
          resolve({ status: response.statusCode ?? 0, text: Buffer.concat(parts).toString() }),
        );
      });
      sent.once("error", (error: NodeJS.ErrnoException) => {
        // The server closes a connection after a number of requests or seconds, possibly just before a request.
        if (sent.reusedSocket && error.code === "ECONNRESET") resolve(this.#send(path, body, signal, true));
        else reject(error);
      });
      sent.end(body);
    });
  }
}
