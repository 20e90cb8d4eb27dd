/**
 * llama.cpp's own server as an engine, to be compared with hone's: each turn is one POST of all token ids so far to its native
 * /completion, whose prompt cache keeps the earlier ones. The engine that it is compared with tokenizes.
 */
import type { Engine, EngineInfo, LocalEngine } from "../../src/core/engine/engine.js";
import type { Generated, GenerateOptions, Sequence } from "../../src/core/engine/sequence.js";
import { HoneError, messageOf } from "../../src/core/util/errors.js";
import { deriveSeed } from "../../src/core/util/random.js";
import { TimeLimit } from "../../src/core/util/time-limit.js";
import { HttpClient } from "../../src/engine/http.js";
import { LocalTokenizer } from "../../src/engine/local-tokenizer.js";

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

/** @throws HoneError when the server refuses */
async function complete(client: HttpClient, body: object, signal: AbortSignal): Promise<Completion> {
  const { status, text } = await client.ask("/completion", body, { signal });
  if (status !== 200) throw new HoneError(`llama-server answered ${status}: ${text.slice(0, 200)}`);
  return JSON.parse(text) as Completion;
}

class ServerSequence implements Sequence {
  readonly #client: HttpClient;
  readonly #info: EngineInfo;
  readonly #logprobs: boolean;
  readonly #ids: number[];
  readonly #closed = new AbortController();

  constructor(client: HttpClient, info: EngineInfo, logprobs: boolean, prompt: Int32Array) {
    this.#client = client;
    this.#info = info;
    this.#logprobs = logprobs;
    this.#ids = Array.from(prompt);
  }

  get length(): number {
    return this.#ids.length;
  }

  async generate(options: GenerateOptions): Promise<Generated> {
    const { append = new Int32Array(), maxTokens, sampling, stop, seconds, signal, onToken } = options;
    const { temperature = 1, topK = 0, topP = 1, minP = 0, seed } = sampling;
    if (topK !== 0 || topP !== 1 || minP !== 0) throw new HoneError("rollouts on llama-server are not truncated");
    if (options.grammar || options.likeliest !== undefined) {
      throw new HoneError("llama-server samples no turns under a grammar here, and names no likeliest tokens");
    }
    const { endTokens, contextPerSequence } = this.#info;
    if (stop.length > 0 && [...stop].sort().join() !== [...endTokens].sort().join()) {
      throw new HoneError(`llama-server stops at the tokens ${endTokens.join()}, not at ${stop.join()}`);
    }
    const nothing = { tokens: new Int32Array(), logprobs: new Float32Array(), waitedSeconds: 0, usedSeconds: 0 };
    if (this.#ids.length + append.length >= contextPerSequence) return { ...nothing, stop: "context" };
    this.#ids.push(...append);
    const time = new TimeLimit(seconds ?? Number.POSITIVE_INFINITY, () => undefined);
    const late = time.signal;
    const given = signal === undefined ? [] : [signal];
    try {
      const answer = await complete(
        this.#client,
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
          ...(this.#logprobs ? { n_probs: 1, post_sampling_probs: false } : {}),
        },
        AbortSignal.any([this.#closed.signal, late, ...given]),
      );
      const read = this.#read(answer);
      read.tokens.forEach((token, i) => {
        onToken?.({ token, logprob: read.logprobs[i] as number });
      });
      return read;
    } catch (error) {
      if (late.aborted) return { ...nothing, stop: "deadline" };
      if (signal?.aborted || this.#closed.signal.aborted) return { ...nothing, stop: "cancelled" };
      throw error instanceof HoneError ? error : new HoneError(`llama-server: ${messageOf(error)}`, { cause: error });
    } finally {
      time.clear();
    }
  }

  close(): void {
    this.#closed.abort();
  }

  #read(answer: Completion): Generated {
    this.#ids.push(...answer.tokens);
    const logprobs = logprobsOf(answer);
    const full = this.#ids.length + 1 >= this.#info.contextPerSequence;
    const stop = answer.stop_type === "eos" ? "stop" : full ? "context" : "length";
    return { tokens: Int32Array.from(answer.tokens), logprobs, stop, waitedSeconds: 0, usedSeconds: 0 };
  }
}

/** A server that {@link startServer} has started for an engine. Its adapter is none, and it scores no given tokens. */
export class LlamaServerEngine extends LocalTokenizer implements Engine {
  readonly info: EngineInfo;
  readonly adapter = null;
  readonly #client: HttpClient;
  readonly #logprobs: boolean;

  /** @param logprobs whether log-probabilities are asked for, which slows it down; without them all are 0 */
  constructor(port: number, words: LocalEngine, logprobs = true) {
    super(words);
    this.#client = new HttpClient(`http://127.0.0.1:${port}`);
    this.#logprobs = logprobs;
    this.info = { ...words.info, replicas: 1 };
  }

  openGroup(prompt: Int32Array, count: number): Sequence[] {
    return Array.from({ length: count }, () => new ServerSequence(this.#client, this.info, this.#logprobs, prompt));
  }

  open(prompt: Int32Array): Sequence {
    return this.openGroup(prompt, 1)[0] as Sequence;
  }

  async score(): Promise<Float32Array> {
    throw new HoneError("llama-server gives no log-probabilities of given tokens");
  }

  async useAdapter(path: string | null): Promise<void> {
    if (path !== null) throw new HoneError("llama-server takes an adapter when it starts");
  }

  /** The engine that tokenizes stays open. */
  async close(): Promise<void> {
    this.#client.close();
  }
}
