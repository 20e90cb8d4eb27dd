/**
 * The engine's contract: token ids in, token ids and logprobs out. Of text it knows the tokenizer and the template of the file.
 *
 * {@link Engine} is inference, wherever it runs: all that rollouts, templates, agents' endpoint, `serve` and the probe use. A
 * {@link LocalEngine} is an engine of this process, with resources of this machine: memory that it gives back, threads,
 * lanes. One of these serves every thread of the process: all sequences of all threads share one copy of the weights, and
 * the decode thread of each lane batches that lane's sequences.
 */

import type { ScoredToken, Sequence } from "./sequence.js";

export type Gpu = "auto" | "cuda" | "vulkan" | "metal" | false;
export type SamplingPlace = "auto" | "host" | "device";

/** Options of every engine. */
interface CommonOptions {
  /** A GGUF file. */
  readonly model: string;
  /** Number of sequences evaluated at once; more may be open: they wait. */
  readonly sequences: number;
  /** Maximum number of tokens of a sequence, including the prompt. */
  readonly contextPerSequence: number;
}

/** An engine of this process, over llama.cpp. Each of its sequences has its own KV buffer. */
export interface LocalEngineOptions extends CommonOptions {
  readonly kind?: "local";
  /**
   * Engines of one model file with different names have contexts of their own, so that each can have another adapter, on
   * the same weights. Default "".
   */
  readonly name?: string;
  /** Default "auto": the best GPU of this machine, `false` (CPU) when it has none. One choice per process. */
  readonly gpu?: Gpu;
  /** Computes on the CPU even where the process has a GPU. Default false. */
  readonly onHost?: boolean;
  /** Which GPU, as for the option --device; by default the first visible one. One choice per process. */
  readonly device?: string;
  /**
   * CPU threads of all lanes together, never more than the cores this process may use, but for one each of lanes on a
   * GPU. Default: those cores (on larger machines one less), and fewer while other programs keep some of them busy; on a GPU,
   * which has all layers, one a lane. A given number does not yield to other programs.
   */
  readonly threads?: number;
  /** Whose graph computes on llama.cpp's libraries: hone's "own" where it can (docs/engine.md). Default "llama". */
  readonly decoder?: "llama" | "own";
  /**
   * Number of contexts that decode in parallel on the same weights, each with its share of threads and sequences. Default: on a CPU
   * one per thread where the model is small and each lane has four sequences, else 1; see contexts.ts.
   */
  readonly lanes?: number;
  /** Maximum number of tokens of one `llama_decode` call. Default 2048. */
  readonly batch?: number;
  /**
   * Maximum number of tokens evaluated in one pass over the weights, at most `batch`. Default 512. Below twice the sequences
   * of a lane a GPU has no pool (`pooledKv`).
   */
  readonly ubatch?: number;
  /**
   * Attention without llama.cpp's flash attention, which on a CPU sums in 16 bits. Slower; for comparisons with other
   * implementations. Default false. f32 weights on a CPU, whose KV is f32, are always computed this way.
   */
  readonly exact?: boolean;
  /**
   * One pool of KV cells for all sequences of a lane, instead of a buffer for each: any batch is one pass over the weights,
   * and forks copy nothing, but every token is compared with the cells of all. Default: on a GPU, where the pool is
   * small (`pooledByDefault` in contexts.ts).
   */
  readonly pooledKv?: boolean;
  /**
   * Pads batches to a few shapes, and evaluates prompts apart from the tokens of running turns, so that llama.cpp need not build
   * a graph for each batch and CUDA replays it. Default: on a GPU, where a row is cheap.
   */
  readonly steadyShapes?: boolean;
  /**
   * Where tokens are drawn. "device": where the logits are, so that 12 bytes of each row are copied to the host and not its
   * logits; batches with scores, grammars, top-k, top-p, min-p, likeliest tokens or temperatures below 0.25 are still
   * sampled by the host. It is tried when the engine is loaded; where it does not draw what the host would, the host
   * samples, and a line says why. Default "auto": the device on CUDA, else the host.
   */
  readonly sampling?: SamplingPlace;
  /**
   * Takes what the device draws, and hone's own graph, without trying them first: only for counting what a card would do that
   * computes nothing, where no trial can pass. No command sets it. Default false.
   */
  readonly untried?: boolean;
}

/** vLLM servers, for rollouts that outgrow one process. The main thread's engine owns them: it loads adapters on all. */
export interface VllmOptions extends CommonOptions {
  readonly kind: "vllm";
  /** "http://127.0.0.1:8000", one each. */
  readonly urls: readonly string[];
  /** A folder that the servers see under the same path: adapters are written there. */
  readonly adapters: string;
  /** Rank of the adapters that will be loaded; undefined where none will be. */
  readonly adapterRank: number | undefined;
  /** Of the engine that tokenizes, and of the learner; see {@link LocalEngineOptions.gpu}. */
  readonly gpu?: Gpu;
  /** The server that is started on this machine, at the only address of `urls`; undefined: somebody runs them. */
  readonly own?: OwnServerOptions;
  /** Interrupts waiting for servers. Of the owner alone. */
  readonly signal?: AbortSignal;
  /** Of the owner's engine: other threads join by it. */
  readonly shared?: VllmShared;
}

export interface OwnServerOptions {
  /** An interpreter that has vLLM. */
  readonly python: string;
  /** The model in Hugging Face's form. */
  readonly folder: string;
  readonly dtype: "float32" | "bfloat16" | "float16";
  readonly gpu: boolean;
  /** Share of the GPU's memory that it takes. */
  readonly memoryShare: number;
  /** While the learner computes: it keeps its memory, gives it back, or is stopped. */
  readonly rests: "stays" | "sleeps" | "stops";
  /** Variables besides those of this process. */
  readonly environment: Readonly<Record<string, string>>;
  readonly logFile: string;
}

/** What the threads of a process share of vLLM servers. */
export interface VllmShared {
  readonly board: SharedArrayBuffer;
  /** Of the adapters' names. */
  readonly prefix: string;
  /** Names of the base model, by server. */
  readonly bases: readonly string[];
  readonly compute: EngineCompute;
}

/** Plain data, so that it can be sent to workers, which pass it to `loadEngine` to play on the same engine. */
export type EngineOptions = LocalEngineOptions | VllmOptions;

/** Devices and precision as llama.cpp reported them when the engine was loaded, not as requested. */
export interface EngineCompute {
  readonly backend: "cuda" | "vulkan" | "metal" | "cpu";
  /** llama.cpp's description. */
  readonly device: string;
  /** Number of layers on the GPU, counting the output as one; less than `layers` where some stay on the CPU. */
  readonly offloadedLayers: number;
  readonly layers: number;
  /** As `EngineInfo.weightType`. */
  readonly weights: string;
  readonly kv: "F16" | "F32";
  /** Null where llama.cpp did not report it. */
  readonly flashAttention: boolean | null;
  /** Where tokens are drawn: see {@link EngineOptions.sampling}. */
  readonly sampling: "host" | "device";
  /** Type to which adapters are rounded, or of each pair of factors A alone ("F16-A"); absent where they are kept in f32. */
  readonly adapters?: "F16" | "BF16" | "F16-A" | "BF16-A";
}

export interface EngineInfo {
  /** Absolute path of the GGUF file. */
  readonly model: string;
  /** `general.architecture`: "qwen2", "llama" ... */
  readonly architecture: string;
  /** Type of most weights, as llama.cpp names it: "F16", "Q8_0" ... */
  readonly weightType: string;
  readonly parameters: number;
  readonly vocabularySize: number;
  /** Bytes of the longest token: a text has at least as many tokens as these go into it. */
  readonly longestToken: number;
  /** Tokens the model was trained with. */
  readonly trainedContext: number;
  /** The Jinja text of `tokenizer.chat_template`; null when the file has none. */
  readonly chatTemplate: string | null;
  /** That of conversations with tools, where the file has one of its own (`tokenizer.chat_template.tool_use`). */
  readonly toolTemplate: string | null;
  /** Ids of special tokens; null where the model has none. */
  readonly special: {
    readonly bos: number | null;
    readonly eos: number | null;
    /** End of a turn, where it is not `eos`. */
    readonly eot: number | null;
    readonly pad: number | null;
  };
  /** Text of `special.bos` and `special.eos`, "" where there is none. */
  readonly bosText: string;
  readonly eosText: string;
  /** Whether the tokenizer itself would put `bos` before a text. `tokenize` never does. */
  readonly addsBos: boolean;
  /** Control tokens by their text ("<|im_end|>"); `tokenize` recognises them only with `special: true`. */
  readonly controlTokens: ReadonlyMap<string, number>;
  /**
   * Other texts that are one token wherever they stand ("<tool_call>" in Qwen's vocabularies), by their text: `tokenize`
   * always recognises them, as Hugging Face's tokenizers do.
   */
  readonly addedTokens: ReadonlyMap<string, number>;
  /** Control tokens that end a generation, according to llama.cpp. */
  readonly endTokens: readonly number[];
  /** Number of sequences that are evaluated at once, at most. */
  readonly sequences: number;
  readonly contextPerSequence: number;
  /** Parts that load an adapter separately, such as lanes: so many scores requested at once reach each of them. */
  readonly replicas: number;
}

export interface LocalEngineInfo extends EngineInfo {
  readonly batch: number;
  readonly ubatch: number;
  /** Maximum number of CPU threads; `EngineStats.threads` are in use. */
  readonly threads: number;
  readonly lanes: number;
  /** Devices that hold weights or compute, in llama.cpp's description. */
  readonly devices: readonly string[];
  /** The backend that `gpu` selected. */
  readonly gpu: Exclude<Gpu, "auto">;
  readonly compute: EngineCompute;
  readonly llamaVersion: string;
}

/** Of vLLM servers. */
export interface ServedEngineInfo extends EngineInfo {
  readonly gpu: Exclude<Gpu, "auto">;
  /** How the servers compute, as far as they tell. */
  readonly compute: EngineCompute;
  /** Their addresses. */
  readonly servers: readonly string[];
}

export interface EngineMemory {
  /** Bytes of weights; 0 while they are given back. */
  readonly weights: number;
  /** Bytes of KV cache, computed from the model's shape; 0 while the engine sleeps. */
  readonly kv: number;
  /** Bytes of one sequence's KV. */
  readonly kvPerSequence: number;
  /** Bytes of the buffers that llama.cpp computes in, in all places together; 0 while the engine sleeps. */
  readonly compute: number;
  /**
   * Bytes of all buffers by the place where they are ("CUDA0", "CUDA_Host", "CPU"), as llama.cpp logs them when it makes
   * them, to 0.01 MiB. Other memory of a backend (its own code, CUDA's pools) is not counted.
   */
  readonly buffers: readonly {
    readonly place: string;
    readonly weights: number;
    readonly adapters: number;
    readonly kv: number;
    readonly compute: number;
    /** For logits transferred to the host. */
    readonly output: number;
  }[];
  readonly devices: readonly { readonly name: string; readonly totalBytes: number; readonly freeBytes: number }[];
}

/** Counters since the engine was loaded, over all threads. */
export interface EngineStats {
  /** Sampled tokens. */
  readonly decoded: number;
  /** Evaluated tokens that were not sampled just before: prompts, appended tokens, scored tokens. */
  readonly prefilled: number;
  /** Prompt tokens whose KV was copied from another sequence instead of being evaluated. */
  readonly reused: number;
  /** `llama_decode` calls. */
  readonly batches: number;
  /** Passes over the weights in these calls: one each unless a batch is split. */
  readonly passes: number;
  /** Of these, passes of prompts alone, whose logits are not computed (`steadyShapes`). */
  readonly promptPasses: number;
  /** Evaluated tokens that only gave a pass its shape. */
  readonly paddingRows: number;
  /** KV cells that the evaluated tokens attend to, summed over tokens: each its sequence's up to itself. Padding has none. */
  readonly ownedCells: number;
  /** Passes for which llama.cpp reused the graph of the previous one, which had the same shape. */
  readonly graphsReused: number;
  /** KV copies made to share a prefix. */
  readonly forks: number;
  /** KV copies made to close gaps between used slots. */
  readonly moves: number;
  /** Sampled tokens that were drawn where the logits are. */
  readonly drawnOnDevice: number;
  /** Bytes of logits, or of drawn tokens, that were copied to the host; with `steadyShapes` also those of padding. */
  readonly copiedBytes: number;
  /** Sequences between turns whose slot was given to a waiting one; they are evaluated again when they continue. */
  readonly evicted: number;
  /** CPU threads in use now: fewer than `EngineInfo.threads` while other programs keep cores busy. */
  readonly threads: number;
  /** Mean over all lanes. */
  readonly seconds: {
    /** Inside llama.cpp. */
    readonly decode: number;
    readonly sampling: number;
    /** Other work: building batches, handing out results. */
    readonly scheduling: number;
    /** Idle. */
    readonly waiting: number;
  };
  /** Current numbers. */
  readonly sequences: {
    /** Sequences that can be evaluated at once: `EngineInfo.sequences`, or fewer since a `wake`. */
    readonly slots: number;
    readonly open: number;
    readonly running: number;
    readonly queued: number;
  };
}

/** Inference, wherever it runs. */
export interface Engine {
  readonly info: EngineInfo;
  /** The adapter in use, as passed to `useAdapter`. */
  readonly adapter: string | null;
  /** Ids of a text. Never adds `bos`. With `special`, texts of control tokens become those tokens. */
  tokenize(text: string, options: { readonly special: boolean }): Int32Array;
  /** The same on another thread, for texts that take long: a second for each some 100,000 characters in the worst case. */
  tokenizeAside(text: string, options: { readonly special: boolean }): Promise<Int32Array>;
  /** Text of ids; bytes that are not UTF-8 become U+FFFD. Control tokens are left out unless `special` is true. */
  detokenize(tokens: ArrayLike<number>, options?: { readonly special?: boolean }): string;
  /** The same as raw bytes: a token may end inside a character. */
  bytes(tokens: ArrayLike<number>, options?: { readonly special?: boolean }): Uint8Array;
  /**
   * `count` sequences with a common prompt. It is evaluated once, when the first of them generates; the others fork
   * its KV as they get slots.
   * @throws HoneError when the prompt is empty, holds unknown ids, or can never fit
   */
  openGroup(prompt: Int32Array, count: number): Sequence[];
  /** A group of one. */
  open(prompt: Int32Array): Sequence;
  /**
   * Log-probabilities of given tokens under the raw softmax: entry i belongs to `tokens[from + i]`, given all tokens
   * before it. `from` is at least 1 (default), since nothing precedes the first token.
   */
  score(tokens: Int32Array, options?: { readonly from?: number; readonly signal?: AbortSignal }): Promise<Float32Array>;
  /**
   * As {@link score} from token 1 on, and with each token's log-probability the `likeliest` tokens of its position, likeliest first
   * (at most 1024). Absent where the engine does not tell.
   */
  scoreEach?(
    tokens: Int32Array,
    options: { readonly likeliest: number; readonly signal?: AbortSignal },
  ): Promise<ScoredToken[]>;
  /**
   * Loads a LoRA adapter (GGUF), or removes it (null), for all sequences of all threads. Turns requested before the call
   * finish with the old weights, turns requested after it use the new ones. Open sequences keep their tokens; their KV is
   * evaluated again. A path must always name the same content: use a new path per version.
   * After a failure the adapter in use stays.
   */
  useAdapter(path: string | null): Promise<void>;
  /** Closes this thread's sequences. A local engine is freed when its last user has closed it. */
  close(): Promise<void>;
}

/** An engine that a training plays on: it makes room while the learner computes. */
export interface PolicyEngine extends Engine {
  readonly info: LocalEngineInfo | ServedEngineInfo;
  /** See {@link LocalEngine}. */
  sleep(options?: { readonly weights?: boolean }): Promise<void>;
  wake(options?: { readonly sequences?: number }): Promise<void>;
}

/** Whether an engine is one of this process. */
export const isLocal = (engine: Engine): engine is LocalEngine => "memory" in engine;

/** An engine of this process, with what it takes of this machine. */
export interface LocalEngine extends PolicyEngine {
  readonly info: LocalEngineInfo;
  /**
   * A sleeping engine wakes with the adapter. Without its weights it only checks that the file is GGUF: an adapter that does
   * not fit the model makes `wake` fail, until another is set.
   */
  useAdapter(path: string | null): Promise<void>;
  /**
   * Frees the KV, on request the weights too. Turns requested before finish first; turns requested while the engine
   * sleeps are refused. Open sequences keep their tokens and are evaluated again after `wake`.
   */
  sleep(options?: { readonly weights?: boolean }): Promise<void>;
  /**
   * Allocates the KV again, and the weights if they were freed. With `sequences` it wakes with only that many, at least one
   * per lane, so that a run can continue when memory for all of them is lacking; the others wait for their
   * turn. Default: as many as before. Does nothing when the engine is awake. After a failure it still sleeps.
   * @throws HoneError for an invalid number, or when the engine is awake with another; EngineOutOfMemory for a lack of
   * memory
   */
  wake(options?: { readonly sequences?: number }): Promise<void>;
  /**
   * Limits decoding to this many CPU threads from the next batch on, at most those of its load, to leave a core to other work
   * of the caller; undefined: all of them again, yielding to other programs as before. Every lane keeps one.
   */
  holdThreads(threads: number | undefined): void;
  memory(): EngineMemory;
  stats(): EngineStats;
}
