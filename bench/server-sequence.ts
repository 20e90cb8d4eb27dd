/**
 * A sequence of the engine's contract whose tokens llama-server samples: each turn is one POST of all token ids so far
 * to its native /completion, whose prompt cache keeps the earlier ones. So the same session, template, parser and tools
 * play on both engines.
 */
import { Agent, type ClientRequest, request } from "node:http";
import type { Engine, Generated, GenerateOptions, Sequence } from "../src/engine/index.js";
import { HoneError } from "../src/util/errors.js";
import { deriveSeed } from "../src/util/random.js";

export interface CompletionServer {
  readonly port: number;
  /** Requests the log-probability of every sampled token, as training needs it. */
  readonly logprobs: boolean;
}

/** The fields used of an answer. Only these are requested, so that the server need not write the others. */
interface Completion {
  readonly tokens: number[];
  readonly stop_type: "none" | "eos" | "limit" | "word";
  readonly completion_probabilities?: readonly { readonly id: number; readonly logprob: number }[];
}

/** One log-probability for each token. The server has none for a token that ends within a character: those become 0. */
function logprobsOf({ tokens, completion_probabilities: given = [] }: Completion): Float32Array {
  let at = 0;
  return Float32Array.from(tokens, (token) => {
    const entry = given[at];
    if (entry?.id !== token) return 0;
    at++;
    return entry.logprob;
  });
}

/** The connections of a thread to a server. */
export class CompletionClient {
  readonly #server: CompletionServer;
  readonly #agent = new Agent({ keepAlive: true });

  constructor(server: CompletionServer) {
    this.#server = server;
  }

  get logprobs(): boolean {
    return this.#server.logprobs;
  }

  async complete(body: object, signal: AbortSignal): Promise<Completion> {
    const { status, text } = await this.#post(JSON.stringify(body), signal);
    if (status !== 200) throw new HoneError(`llama-server answered ${status}: ${text.slice(0, 200)}`);
    return JSON.parse(text) as Completion;
  }

  #post(body: string, signal: AbortSignal): Promise<{ status: number | undefined; text: string }> {
    return new Promise((resolve, reject) => {
      const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(body) };
      const where = { host: "127.0.0.1", port: this.#server.port, path: "/completion", method: "POST" };
      const sent: ClientRequest = request({ ...where, headers, agent: this.#agent, signal }, (response) => {
        const parts: Buffer[] = [];
        response.on("data", (part: Buffer) => parts.push(part));
        response.once("error", reject);
        response.once("end", () => resolve({ status: response.statusCode, text: Buffer.concat(parts).toString() }));
      });
      sent.once("error", (error: NodeJS.ErrnoException) => {
        // The server closes a connection after a number of requests or seconds, possibly just before a request.
        if (sent.reusedSocket && error.code === "ECONNRESET") resolve(this.#post(body, signal));
        else reject(error);
      });
      sent.end(body);
    });
  }
}

export class ServerSequence implements Sequence {
  readonly #client: CompletionClient;
  readonly #engine: Engine;
  readonly #ids: number[];
  readonly #closed = new AbortController();

  /** @param engine whose vocabulary, end tokens and context the server has too */
  constructor(client: CompletionClient, engine: Engine, prompt: Int32Array) {
    this.#client = client;
    this.#engine = engine;
    this.#ids = Array.from(prompt);
  }

  get length(): number {
    return this.#ids.length;
  }

  async generate({ append = new Int32Array(), maxTokens, sampling, stop, deadline, signal }: GenerateOptions) {
    const { temperature = 1, topK = 0, topP = 1, minP = 0, seed } = sampling;
    if (topK !== 0 || topP !== 1 || minP !== 0) throw new HoneError("rollouts on llama-server are not truncated");
    const { endTokens } = this.#engine.info;
    if (stop.length > 0 && [...stop].sort().join() !== [...endTokens].sort().join()) {
      throw new HoneError(`llama-server stops at the tokens ${endTokens.join()}, not at ${stop.join()}`);
    }
    this.#ids.push(...append);
    const late = AbortSignal.timeout(Math.max(0, Math.min((deadline ?? Infinity) - Date.now(), 2 ** 31 - 1)));
    const given = signal === undefined ? [] : [signal];
    const nothing = {
      tokens: new Int32Array(),
      logprobs: new Float32Array(),
      waitedSeconds: 0,
    };
    try {
      const answer = await this.#client.complete(
        {
          prompt: this.#ids,
          n_predict: maxTokens,
          cache_prompt: true,
          samplers: ["temperature"],
          temperature,
          seed: deriveSeed(seed, this.#ids.length) % 2 ** 32,
          ignore_eos: stop.length === 0,
          return_tokens: true,
          response_fields: ["tokens", "stop_type", "completion_probabilities"],
          // One alternative is the least that can be requested. Before truncation, which is off: the same probability,
          // without sorting the vocabulary.
          ...(this.#client.logprobs ? { n_probs: 1, post_sampling_probs: false } : {}),
        },
        AbortSignal.any([this.#closed.signal, late, ...given]),
      );
      return this.#read(answer);
    } catch (error) {
      if (late.aborted) return { ...nothing, stop: "deadline" as const };
      if (signal?.aborted || this.#closed.signal.aborted) return { ...nothing, stop: "cancelled" as const };
      throw error;
    }
  }

  close(): void {
    this.#closed.abort();
  }

  #read(answer: Completion): Generated {
    this.#ids.push(...answer.tokens);
    const logprobs = logprobsOf(answer);
    const full = this.#ids.length + 1 >= this.#engine.info.contextPerSequence;
    const stop = answer.stop_type === "eos" ? "stop" : full ? "context" : "length";
    return { tokens: Int32Array.from(answer.tokens), logprobs, stop, waitedSeconds: 0 };
  }
}
