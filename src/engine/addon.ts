/** The native addon: the types of its functions, and loading it together with llama.cpp. */
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { isMainThread } from "node:worker_threads";
import type { EngineCompute, EngineMemory, EngineStats, Gpu } from "../core/engine/engine.js";
import type { DrawStatistics, SampledToken, Sampling } from "../core/engine/sequence.js";
import { addonFile } from "../core/util/binaries.js";
import { HoneError, messageOf } from "../core/util/errors.js";
import { reinstall } from "../core/util/program.js";
import { type CudaLoader, loadLlama } from "./llama.js";
import { noDevice } from "./missing.js";

/** Complete settings of an engine. */
export interface NativeSettings {
  /** Absolute, with symbolic links resolved: engines are shared by this path. */
  model: string;
  /** Engines of one model with different names have contexts of their own on the same weights. */
  name: string;
  useGpu: boolean;
  /** Number of llama.cpp contexts, see `native/engine/lanes.h`; the following settings are totals over all of them. */
  lanes: number;
  threads: number;
  sequences: number;
  contextPerSequence: number;
  batch: number;
  ubatch: number;
  /** Rows of logits per decode call at most. */
  outputs: number;
  exact: boolean;
  pooledKv: boolean;
  steadyShapes: boolean;
  /** Tokens are drawn where the logits are, where that works. */
  drawOnDevice: boolean;
  drawUntried: boolean;
  /** hone's own graph plays, where it can; with `whyLlama`, which a trial found, it does not. */
  ownDecoder: boolean;
  whyLlama: string;
  /** See `SchedulerSettings::fillGap`. */
  fillGap: number;
  samplingThreads: number;
}

export type NativeSampling = Required<Sampling>;

export interface NativeTurn extends NativeSampling {
  append: Int32Array | undefined;
  maxTokens: number;
  stop: Int32Array;
  /** Milliseconds of the batches that evaluate the turn; 0 means no limit. */
  limitMs: number;
  grammar?: NativeGrammar | undefined;
  /** All calls come before the turn's promise is settled. */
  onToken?: ((sampled: SampledToken) => void) | undefined;
  likeliest?: number | undefined;
}

/** See `GrammarSpec` in `native/engine/grammar.h`. */
export interface NativeGrammar {
  rules: string;
  thoughtsOpen: string;
  thoughtsClose: string;
  opened: boolean;
  lazy: boolean;
  marks: readonly string[];
  firstMarks: readonly string[];
  before: Int32Array;
  restricts: boolean;
}

/** See `AllowedSets` in `native/engine/constraint.h`. */
export interface NativeAllowed {
  numbers: Int32Array;
  sets: readonly Uint8Array[];
}

export interface UnderWay<T> {
  turn: number;
  promise: Promise<T>;
}

export interface NativeGenerated {
  tokens: Int32Array;
  logprobs: Float32Array;
  stop: "stop" | "length" | "context" | "cancelled" | "deadline";
  length: number;
  /** Of the `length` ids of the sequence, those with keys and values read from its cells; see `digestOf`. */
  digest: number;
  /** By which the turn was sampled. */
  temperature: number;
  truncated: boolean;
  /** Some of its keys and values were computed with another adapter than was in use. */
  foreign: boolean;
  /** From which its draws follow. */
  seed: number;
  draws: DrawStatistics;
  /** With a grammar that restricts. */
  allowed?: NativeAllowed;
  /** From the request until the turn had a slot, or until its end when it never had one. */
  waitedMs: number;
  /** Of its time limit. */
  usedMs: number;
  /** Null for none; its `code` is "memory" for a lack of memory. Promises are rejected with errors of this kind. */
  error: Error | null;
}

export interface NativeScored {
  logprobs: Float32Array;
  /** The likeliest tokens of each position, one position behind the other. */
  likely: Int32Array;
  likelyLogprobs: Float32Array;
  cancelled: boolean;
  error: Error | null;
}

/** Of log-probabilities, nats. */
export interface Difference {
  mean: number;
  most: number;
}

/** See `native/engine/own_trial.h`. */
export interface OwnTrial {
  /** Why hone's own graph cannot play the model, as a clause; "" where it can. */
  whyNot: string;
  kinds: { kind: string; rows: number; own: Difference; llama: Difference }[];
  /** What the decoder says of a pass for which its memory would have to grow; "" where that fits. */
  refusal: string;
}

export interface NativeInfo {
  architecture: string;
  weightType: string;
  parameters: number;
  vocabularySize: number;
  longestToken: number;
  trainedContext: number;
  chatTemplate: string | null;
  toolTemplate: string | null;
  bos: number | null;
  eos: number | null;
  eot: number | null;
  pad: number | null;
  bosText: string;
  eosText: string;
  addsBos: boolean;
  /** ggml's name of the GPU in use, "" for none. This and the following as in {@link EngineInfo.compute}. */
  device: string;
  offloadedLayers: number;
  layers: number;
  kv: "F16" | "F32";
  flashAttention: boolean | null;
  /** "" where they are not rounded. */
  adapters: NonNullable<EngineCompute["adapters"]> | "";
  sampling: "host" | "device";
  /** Why the host samples although `drawOnDevice` was given; "" where it does not. */
  whyHost: string;
  /** Why llama.cpp's graph plays although `ownDecoder` was given; "" where it does not. */
  whyLlama: string;
  controlTokens: [text: string, id: number][];
  addedTokens: [text: string, id: number][];
  endTokens: Int32Array;
}

export interface NativeEngine {
  info(): NativeInfo;
  memory(): Omit<EngineMemory, "devices" | "compute">;
  stats(): EngineStats;
  /** Of each lane: the number of the batch or command that it is at, another one for each; 0 while it waits. */
  rounds(): Float64Array;
  tokenize(text: string, special: boolean): Int32Array;
  tokenizeAside(text: string, special: boolean): Promise<Int32Array>;
  bytes(tokens: Int32Array, special: boolean): Uint8Array;
  /** Ids of `count` new sequences. */
  open(prompt: Int32Array, count: number): Float64Array;
  generate(sequence: number, turn: NativeTurn): UnderWay<NativeGenerated>;
  score(tokens: Int32Array, from: number, likeliest: number): UnderWay<NativeScored>;
  cancel(turn: number): void;
  closeSequence(sequence: number): void;
  /** CPU threads from the next batch on, at most those it was loaded with. */
  setThreads(threads: number): void;
  /** "" for none. */
  adapter(): string;
  useAdapter(path: string): Promise<void>;
  sleep(weights: boolean): Promise<void>;
  /** With this many sequences in all lanes together; undefined: as many as before. */
  wake(sequences?: number): Promise<void>;
  close(): Promise<void>;
}

export interface NativeDevice {
  name: string;
  description: string;
  /** "CUDA", "CPU" ... */
  backend: string;
  isGpu: boolean;
  totalBytes: number;
  freeBytes: number;
}

export interface Addon extends CudaLoader {
  /** Finds and checks the llama.cpp in this process. */
  bind(): void;
  /** Null before `bind`. */
  llamaVersion(): string | null;
  load(settings: NativeSettings): Promise<NativeEngine>;
  /** Plays some tokens by both decoders. `adapter`: "" for none. */
  tryOwnDecoder(
    settings: Pick<NativeSettings, "model" | "useGpu" | "steadyShapes" | "threads"> & { adapter: string },
  ): Promise<OwnTrial>;
  /** Ends all decode threads of the process permanently; the process itself, with this code, where one does not end in that time. */
  stopAll(code: number, milliseconds: number): void;
  devices(): NativeDevice[];
  /** Whether an engine of this process is making a GPU compile its kernels. */
  warming(): boolean;
  /** Maximum number of sequences of one llama.cpp context. */
  mostSequences(): number;
  onLog(listener: ((level: "warning" | "error", line: string) => void) | null): void;
  /** `to` may be left in part when it fails. */
  quantize(from: string, to: string, type: "q8_0" | "q4_k_m", threads: number): Promise<void>;
  draw(
    logits: Float32Array,
    sampling: NativeSampling,
    count: number,
  ): Pick<NativeGenerated, "tokens" | "logprobs" | "draws">;
}

/** @throws HoneError when the addon was not built or cannot be loaded; there is no fallback */
export function loadAddon(file = addonFile()): Addon {
  if (!existsSync(file)) {
    throw new HoneError(`the engine's addon is not built (no ${file}); run \`node scripts/build-addon.mjs\` in hone`);
  }
  try {
    return createRequire(import.meta.url)(file) as Addon;
  } catch (error) {
    const [line] = messageOf(error).split("\n");
    throw new HoneError(`the engine's addon cannot be loaded: ${line}; run ${reinstall()}`, {
      cause: error,
    });
  }
}

/** Milliseconds in which the batches that run end, when the process does. */
const STOP_MS = 10_000;

/** Kept for the life of the process: node-llama-cpp shuts llama.cpp down when its objects are garbage-collected. */
let llama: Promise<unknown> | undefined;

/**
 * The addon, with llama.cpp loaded by node-llama-cpp and bound to it. The first call of a process must come from the
 * main thread and decides which build of llama.cpp (`gpu`) the process runs, and on which device; workers share both.
 *
 * @param device as `EngineOptions.device`
 * @throws HoneError that says what is missing
 */
export async function openAddon(gpu: Gpu, device?: string): Promise<Addon> {
  const addon = loadAddon();
  const first = addon.llamaVersion() === null;
  if (first) {
    if (!isMainThread) throw new HoneError("load the engine on the main thread before workers use it");
    try {
      llama ??= loadLlama(addon, gpu, device);
      await llama;
      addon.bind();
      // `process.exit` frees llama.cpp's objects at once: no batch may be running then.
      process.once("exit", (code) => addon.stopAll(code, STOP_MS));
    } catch (error) {
      llama = undefined;
      if (error instanceof HoneError) throw error;
      throw new HoneError(`llama.cpp cannot be used: ${messageOf(error)}`, { cause: error });
    }
  }
  const have = gpuOf(addon.devices());
  if (gpu !== "auto" && gpu !== have) {
    if (first && gpu !== false && have === false) throw new HoneError(noDevice(gpu));
    const words = have === false ? "without a GPU" : `with ${have}`;
    throw new HoneError(`gpu ${gpu} was asked for, but this process already runs llama.cpp ${words}`);
  }
  return addon;
}

/** The kind of GPU among this process's devices. */
export function gpuOf(devices: readonly NativeDevice[]): Exclude<Gpu, "auto"> {
  const backend = devices.find((device) => device.isGpu)?.backend.toLowerCase();
  if (backend === undefined) return false;
  if (backend.startsWith("cuda")) return "cuda";
  return backend.startsWith("vulkan") ? "vulkan" : "metal";
}
