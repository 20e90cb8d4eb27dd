/** One conversation on vLLM servers: each turn is a request with all token ids so far, whose prefix the server has cached. */

import { digestOf, digestOfLogprobs } from "../../core/engine/evaluated.js";
import type { Evaluated, Generated, GenerateOptions, Sampling, Sequence } from "../../core/engine/sequence.js";
import { HoneError } from "../../core/util/errors.js";
import { deriveSeed } from "../../core/util/random.js";
import { anyOf } from "../../core/util/signals.js";
import { awakeTime } from "../../core/util/time-limit.js";
import type { HttpClient } from "../http.js";
import type { Board } from "./board.js";
import { complete, Failures } from "./protocol.js";

/** What a thread knows of the servers. */
export interface Servers {
  readonly board: Board;
  readonly clients: readonly HttpClient[];
  readonly contextPerSequence: number;
  /** Number of the model's tokens. */
  readonly vocabularySize: number;
  /** The name by which a server is asked for an adapter, or for the base model (version 0). */
  nameOf(server: number, version: number): string;
  saltOf(version: number): string;
  /** Of the next turn. */
  version(): number;
}

/** Milliseconds between looks at the board while a turn runs, or waits for a server. */
const LOOK = 250;

/** Sequences of one prompt: together on one server, whose cache then has the prompt once. */
export class Group {
  readonly #servers: Servers;
  #server: number | undefined;
  #open: number;

  constructor(servers: Servers, count: number) {
    this.#servers = servers;
    this.#open = count;
    this.#server = servers.board.assign(count);
  }

  /** The server of the group: another one where that does not answer; undefined where none does. */
  server(): number | undefined {
    const { board } = this.#servers;
    if (this.#server !== undefined && board.answers(this.#server)) return this.#server;
    if (this.#server !== undefined) board.release(this.#server, this.#open);
    this.#server = board.assign(this.#open);
    return this.#server;
  }

  leave(): void {
    this.#open--;
    if (this.#server !== undefined) this.#servers.board.release(this.#server, 1);
  }
}

const evaluatedOf = (
  prompt: readonly number[],
  tokens: readonly number[],
  logprobs: Float32Array,
  { temperature = 1, topK = 0, topP = 1, minP = 0, seed }: Sampling,
): Evaluated => {
  const ids = [...prompt, ...tokens];
  return {
    tokens: ids.length,
    digest: digestOf(ids),
    temperature,
    seed,
    truncated: topK > 0 || topP < 1 || minP > 0,
    // The cache is salted by the adapter (`saltOf`).
    foreign: false,
    drawn: [[prompt.length, ids.length, digestOfLogprobs(logprobs)]],
  };
};

export class VllmSequence implements Sequence {
  readonly #servers: Servers;
  readonly #group: Group;
  readonly #ids: number[];
  readonly #closed = new AbortController();

  constructor(servers: Servers, group: Group, prompt: Int32Array) {
    this.#servers = servers;
    this.#group = group;
    this.#ids = Array.from(prompt);
  }

  get length(): number {
    return this.#ids.length;
  }

  async generate(options: GenerateOptions): Promise<Generated> {
    const { append = new Int32Array(), stop, signal, onToken } = options;
    if (options.grammar || options.likeliest !== undefined) {
      throw new HoneError("vLLM samples no turns under a grammar here, and names no likeliest tokens");
    }
    const { contextPerSequence } = this.#servers;
    const nothing = { tokens: new Int32Array(), logprobs: new Float32Array(), waitedSeconds: 0, usedSeconds: 0 };
    if (this.#ids.length + append.length >= contextPerSequence) return { ...nothing, stop: "context" };
    this.#append(append);
    using ended = anyOf([this.#closed.signal, ...(signal ? [signal] : [])]);
    const turn = await this.#somewhere(options, ended.signal);
    const { times } = turn;
    if ("end" in turn) return { ...nothing, ...times, stop: turn.end };
    const tokens = Int32Array.from(turn.tokens);
    // At temperature 0 the most likely token is taken for certain.
    const logprobs = options.sampling.temperature === 0 ? tokens.map(() => 0) : turn.logprobs;
    this.#append(tokens);
    const last = tokens.at(-1) as number;
    const full = this.#ids.length >= contextPerSequence;
    const stopped = stop.includes(last);
    if (!stopped && !full && tokens.length < options.maxTokens) {
      throw new HoneError(
        `the vLLM server ended a turn after ${tokens.length} tokens by token ${last}, which ends none here; start it with --generation-config vllm`,
      );
    }
    const told = Float32Array.from(logprobs);
    const generated = {
      tokens,
      logprobs: told,
      stop: stopped ? ("stop" as const) : full && tokens.length < options.maxTokens ? "context" : "length",
      ...times,
      ...(turn.prompt ? { evaluated: evaluatedOf(turn.prompt, turn.tokens, told, options.sampling) } : {}),
    } satisfies Generated;
    tokens.forEach((token, i) => {
      onToken?.({ token, logprob: generated.logprobs[i] as number });
    });
    return generated;
  }

  close(): void {
    if (this.#closed.signal.aborted) return;
    this.#closed.abort();
    this.#group.leave();
  }

  #append(tokens: Int32Array): void {
    for (const token of tokens) this.#ids.push(token);
  }

  /** Samples the turn on the group's server; when that is lost, on another one, or on the first that is there again. */
  async #somewhere({ maxTokens, sampling, stop, seconds }: GenerateOptions, ended: AbortSignal) {
    const { board, clients, contextPerSequence, vocabularySize } = this.#servers;
    const before = board.outage();
    const began = awakeTime();
    const paused = () => Math.max(0, board.outage(before));
    // Time without any server counts for no limit. What a server's own queue takes is not known.
    const used = () => awakeTime() - began - paused();
    const overdue = () => seconds !== undefined && used() >= 1000 * seconds;
    const failures = new Failures();
    const timesNow = () => ({ waitedSeconds: paused() / 1000, usedSeconds: used() / 1000 });
    for (;;) {
      if (ended.aborted) return { end: "cancelled" as const, times: timesNow() };
      const server = this.#group.server();
      if (server !== undefined && overdue()) return { end: "deadline" as const, times: timesNow() };
      if (server === undefined) {
        board.checkHope();
        await new Promise((resolve) => setTimeout(resolve, LOOK));
        continue;
      }
      const version = this.#servers.version();
      const losses = board.losses(server);
      const given = new AbortController();
      using either = anyOf([ended, given.signal]);
      const watch = setInterval(() => {
        if (overdue() || board.losses(server) !== losses) given.abort();
      }, LOOK);
      if (version > 0) board.beginTurn(version);
      try {
        const answer = await complete(
          clients[server] as HttpClient,
          {
            model: this.#servers.nameOf(server, version),
            salt: this.#servers.saltOf(version),
            prompt: this.#ids,
            maxTokens: Math.min(maxTokens, contextPerSequence - this.#ids.length),
            sampling: { ...sampling, seed: deriveSeed(sampling.seed, this.#ids.length) },
            stop,
            vocabularySize,
          },
          // `watch` has the limit of a turn that has one: no byte comes before its last token.
          { signal: either.signal, ...(seconds === undefined ? {} : { seconds: Number.POSITIVE_INFINITY }) },
        );
        if (answer.tokens.length > 0) return { ...answer, times: timesNow() };
        throw new HoneError("the vLLM server ended a turn without a token");
      } catch (error) {
        if (either.signal.aborted) continue;
        if (error instanceof HoneError) throw new HoneError(`vLLM: ${error.message}`, { cause: error });
        failures.add(error, clients[server] as HttpClient);
        board.lose(server);
      } finally {
        if (version > 0) board.endTurn(version);
        clearInterval(watch);
      }
    }
  }
}
