/** The engine over the native addon: checks arguments, and converts C++ results to the contract's types. */

import { type AllowedTokens, packSet } from "../core/engine/allowed.js";
import type { EngineMemory, EngineStats, LocalEngine, LocalEngineInfo } from "../core/engine/engine.js";
import { engineError } from "../core/engine/errors.js";
import { digestOfLogprobs } from "../core/engine/evaluated.js";
import type { Generated, GenerateOptions, Grammar, Sampling, ScoredToken, Sequence } from "../core/engine/sequence.js";
import { HoneError } from "../core/util/errors.js";
import { onAbort } from "../core/util/signals.js";
import type { Addon, NativeAllowed, NativeEngine, NativeGrammar, NativeSampling, NativeScored } from "./addon.js";
import { whileCompiling } from "./compiling.js";
import type { Governor } from "./governor.js";
import { checkSoundAdapter } from "./models.js";

/** Sampling with its defaults. */
export function completeSampling({ temperature = 1, topK = 0, topP = 1, minP = 0, seed }: Sampling): NativeSampling {
  return { temperature, topK, topP, minP, seed };
}

const nativeGrammar = (
  { rules, thoughts, marks }: Grammar,
  before: ArrayLike<number> = [],
  restricts = false,
): NativeGrammar => ({
  rules,
  thoughtsOpen: thoughts?.open ?? "",
  thoughtsClose: thoughts?.close ?? "",
  opened: thoughts?.opened ?? false,
  lazy: marks !== undefined,
  marks: marks?.anywhere ?? [],
  firstMarks: marks?.first ?? [],
  before: Int32Array.from(before),
  restricts,
});

function allowedOf({ numbers, sets }: NativeAllowed): AllowedTokens | undefined {
  const at = [...numbers.keys()].filter((position) => numbers[position] !== -1);
  if (at.length === 0) return undefined;
  return { sets: sets.map(packSet), at, set: at.map((position) => numbers[position] as number) };
}

/** Calls the addon, which refuses in one line what cannot be. @throws HoneError */
function called<T>(call: () => T): T {
  try {
    return call();
  } catch (error) {
    throw engineError(error);
  }
}

/** As {@link called}, for what it promises. */
async function settled<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call();
  } catch (error) {
    throw engineError(error);
  }
}

/** Cancels a turn when the signal is aborted, until the turn has ended. */
async function cancellable<T>(
  native: NativeEngine,
  { turn, promise }: { turn: number; promise: Promise<T> },
  signal: AbortSignal | undefined,
): Promise<T> {
  using _cancelling = onAbort(signal, () => native.cancel(turn));
  return await promise;
}

class NativeSequence implements Sequence {
  readonly #native: NativeEngine;
  readonly #id: number;
  #length: number;
  #closed = false;

  constructor(native: NativeEngine, id: number, length: number) {
    this.#native = native;
    this.#id = id;
    this.#length = length;
  }

  get length(): number {
    return this.#length;
  }

  async generate({
    append,
    maxTokens,
    sampling,
    stop,
    seconds = Number.POSITIVE_INFINITY,
    signal,
    ...options
  }: GenerateOptions): Promise<Generated> {
    const { onToken, likeliest, grammar, before, restricts } = options;
    const turn = {
      ...completeSampling(sampling),
      onToken,
      likeliest,
      ...(grammar ? { grammar: nativeGrammar(grammar, before, restricts) } : {}),
      append,
      maxTokens,
      stop: Int32Array.from(stop),
      // 0 means "none" to the addon.
      limitMs: seconds === Number.POSITIVE_INFINITY ? 0 : Math.max(1, Math.round(1000 * seconds)),
    };
    const begun = called(() => this.#native.generate(this.#id, turn));
    const result = await cancellable(this.#native, begun, signal);
    this.#length = result.length || this.#length;
    if (result.error) throw engineError(result.error);
    const { tokens, logprobs, length, digest, temperature, truncated, foreign, seed, draws } = result;
    const drawn = [[length - tokens.length, length, digestOfLogprobs(logprobs)]] as const;
    const evaluated = { tokens: length, digest, temperature, truncated, foreign, seed, drawn, draws };
    const allowed = result.allowed && allowedOf(result.allowed);
    const { waitedMs, usedMs } = result;
    const times = { waitedSeconds: waitedMs / 1000, usedSeconds: usedMs / 1000 };
    return { tokens, logprobs, allowed, stop: result.stop, ...times, evaluated };
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#native.closeSequence(this.#id);
  }
}

/** What goes with an engine on the main thread. */
interface Beside {
  readonly governor?: Governor | undefined;
  /** Ends the watch over its device. */
  readonly unwatch?: (() => void) | undefined;
  readonly log?: ((line: string) => void) | undefined;
  readonly decoder?: "llama" | "own";
}

export class LlamaEngine implements LocalEngine {
  readonly info: LocalEngineInfo;
  /** Whose graph plays. */
  readonly decoder: "llama" | "own";
  readonly #addon: Addon;
  readonly #native: NativeEngine;
  readonly #beside: Beside;

  constructor(addon: Addon, native: NativeEngine, info: LocalEngineInfo, beside: Beside = {}) {
    this.#addon = addon;
    this.#native = native;
    this.info = info;
    this.#beside = beside;
    this.decoder = beside.decoder ?? "llama";
  }

  get adapter(): string | null {
    return this.#native.adapter() || null;
  }

  tokenize(text: string, { special }: { readonly special: boolean }): Int32Array {
    return this.#native.tokenize(text, special);
  }

  tokenizeAside(text: string, { special }: { readonly special: boolean }): Promise<Int32Array> {
    return this.#native.tokenizeAside(text, special);
  }

  bytes(tokens: ArrayLike<number>, { special = false }: { readonly special?: boolean } = {}): Uint8Array {
    return called(() => this.#native.bytes(Int32Array.from(tokens), special));
  }

  detokenize(tokens: ArrayLike<number>, options: { readonly special?: boolean } = {}): string {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.bytes(tokens, options));
  }

  openGroup(prompt: Int32Array, count: number): Sequence[] {
    const ids = called(() => this.#native.open(prompt, count));
    return Array.from(ids, (id) => new NativeSequence(this.#native, id, prompt.length));
  }

  open(prompt: Int32Array): Sequence {
    return this.openGroup(prompt, 1)[0] as Sequence;
  }

  async score(
    tokens: Int32Array,
    { from = 1, signal }: { readonly from?: number; readonly signal?: AbortSignal } = {},
  ): Promise<Float32Array> {
    return (await this.#score(tokens, from, 0, signal))?.logprobs ?? new Float32Array(0);
  }

  async scoreEach(
    tokens: Int32Array,
    { likeliest, signal }: { readonly likeliest: number; readonly signal?: AbortSignal },
  ): Promise<ScoredToken[]> {
    const scored = await this.#score(tokens, 1, likeliest, signal);
    if (!scored) return [];
    const each = Math.min(likeliest, this.info.vocabularySize);
    return Array.from(scored.logprobs, (own, at) => {
      const first = at * each;
      const likely = [...scored.likely.subarray(first, first + each)];
      return {
        token: tokens[at + 1] as number,
        own,
        likeliest: likely.map((token, i) => ({ token, logprob: scored.likelyLogprobs[first + i] as number })),
      };
    });
  }

  /** Undefined where no token is scored. */
  async #score(
    tokens: Int32Array,
    from: number,
    likeliest: number,
    signal: AbortSignal | undefined,
  ): Promise<NativeScored | undefined> {
    if (from >= tokens.length) return undefined;
    const begun = called(() => this.#native.score(tokens, from, likeliest));
    const result = await cancellable(this.#native, begun, signal);
    signal?.throwIfAborted();
    if (result.error) throw engineError(result.error);
    if (result.cancelled) throw new HoneError("the engine was closed");
    return result;
  }

  useAdapter(path: string | null): Promise<void> {
    return settled(() => {
      if (path !== null && path !== "") checkSoundAdapter(path);
      return whileCompiling(this.#addon, this.#beside.log, () => this.#native.useAdapter(path ?? ""));
    });
  }

  sleep({ weights = false }: { readonly weights?: boolean } = {}): Promise<void> {
    return settled(() => this.#native.sleep(weights));
  }

  async wake({ sequences }: { readonly sequences?: number } = {}): Promise<void> {
    await settled(() => whileCompiling(this.#addon, this.#beside.log, () => this.#native.wake(sequences)));
  }

  holdThreads(threads: number | undefined): void {
    const { governor } = this.#beside;
    if (governor) governor.hold(threads);
    else this.#native.setThreads(threads ?? this.info.threads);
  }

  memory(): EngineMemory {
    const devices = this.#addon.devices();
    const memory = this.#native.memory();
    return {
      ...memory,
      compute: memory.buffers.reduce((sum, { compute }) => sum + compute, 0),
      devices: devices.map(({ name, totalBytes, freeBytes }) => ({ name, totalBytes, freeBytes })),
    };
  }

  stats(): EngineStats {
    return this.#native.stats();
  }

  close(): Promise<void> {
    this.#beside.governor?.stop();
    this.#beside.unwatch?.();
    return settled(() => this.#native.close());
  }
}
