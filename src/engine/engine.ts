/**
 * The engine's contract: token ids in, token ids and logprobs out. No text, no chat, no JSON.
 *
 * One engine serves every thread of the process: all sequences of all threads share one copy of the weights, and the
 * decode thread of each of its lanes batches those that play there. A remote engine can implement the same interface.
 */

export type Gpu = "auto" | "cuda" | "vulkan" | "metal" | false;

/** Plain data, so that it can be sent to workers, which pass it to `loadEngine` to share the same engine. */
export interface EngineOptions {
  /** A GGUF file. */
  readonly model: string;
  /**
   * Engines of one model file with different names have contexts of their own, so that each can have another adapter, on
   * the same weights. Default "".
   */
  readonly name?: string;
  /** Default "auto": the best this machine has, `false` (CPU) when it has none. One choice a process. */
  readonly gpu?: Gpu;
  /** Which GPU, as the option --device; the first that is visible when nobody says. One choice a process. */
  readonly device?: string;
  /**
   * CPU threads of a decode step. More than the cores this process may use is never used. Default: those cores (on
   * larger machines one less), and fewer while other programs keep some of them busy. A number that is given stays.
   */
  readonly threads?: number;
  /**
   * llama.cpp contexts that decode beside each other on the same weights, each with its share of threads and sequences;
   * at most as many as there are of either. Default: on a CPU one for each thread where the model is small (its threads
   * would mostly wait for each other) and each has four sequences, else 1.
   */
  readonly lanes?: number;
  /** Sequences that are evaluated at once; each has its own KV buffer. More may be open: they wait. */
  readonly sequences: number;
  /** Tokens a sequence can have, prompt included. */
  readonly contextPerSequence: number;
  /** Tokens of one `llama_decode` call at most. Default 2048. */
  readonly batch?: number;
  /** Tokens evaluated in one pass over the weights at most. Default 512. */
  readonly ubatch?: number;
  /**
   * Attention without llama.cpp's flash attention, which on a CPU sums in 16 bits. Slower; for comparisons with other
   * implementations. Default false. f32 weights on a CPU, whose KV is f32, always go without.
   */
  readonly exact?: boolean;
  /**
   * One pool of KV cells for all sequences of a lane, in place of a buffer for each: any batch is one pass over the
   * weights, and forks copy nothing, but every token is compared with the cells of all. Default: on a GPU, where that is
   * small (`pooledByDefault` in load.ts).
   */
  readonly pooledKv?: boolean;
  /**
   * Gives batches one of few shapes by tokens that change nothing, so that llama.cpp need not build a graph for each.
   * Default: on a GPU, where a row costs little, with a pool.
   */
  readonly steadyShapes?: boolean;
}

/** What computes and how, as llama.cpp did it when the engine was loaded, not as it was asked to. */
export interface EngineCompute {
  readonly backend: "cuda" | "vulkan" | "metal" | "cpu";
  /** In llama.cpp's words. */
  readonly device: string;
  /** Layers that are on the GPU, the output as one of them; fewer than `layers` where some are left to the CPU. */
  readonly offloadedLayers: number;
  readonly layers: number;
  /** As `EngineInfo.weightType`. */
  readonly weights: string;
  readonly kv: "F16" | "F32";
  /** Null where llama.cpp did not say. */
  readonly flashAttention: boolean | null;
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
  /** Tokens the model was trained with. */
  readonly trainedContext: number;
  /** The Jinja text of `tokenizer.chat_template`; null when the file has none. */
  readonly chatTemplate: string | null;
  /** Ids of tokens with a role; null where the model has none. */
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
  /** Control tokens by their text ("<|im_end|>"): what `tokenize` recognises only with `special: true`. */
  readonly controlTokens: ReadonlyMap<string, number>;
  /** Control tokens that end a generation, as llama.cpp knows them. */
  readonly endTokens: readonly number[];
  /** At most; `EngineStats.sequences.slots` are evaluated at once. */
  readonly sequences: number;
  readonly contextPerSequence: number;
  readonly batch: number;
  readonly ubatch: number;
  /** CPU threads at most; `EngineStats.threads` are in use. */
  readonly threads: number;
  readonly lanes: number;
  /** Devices that hold weights or compute, in llama.cpp's words. */
  readonly devices: readonly string[];
  /** What `gpu` came to. */
  readonly gpu: Exclude<Gpu, "auto">;
  readonly compute: EngineCompute;
  readonly llamaVersion: string;
}

export interface Sampling {
  /** Divides the logits. 0 takes the likeliest token. Default 1. */
  readonly temperature?: number;
  /** Keep the k likeliest tokens; 0 keeps all (default). */
  readonly topK?: number;
  /** Then keep the likeliest tokens that hold this share of what is left; 1 keeps all (default). */
  readonly topP?: number;
  /** Then drop tokens less likely than this share of the likeliest; 0 drops none (default). */
  readonly minP?: number;
  /**
   * A whole number in [0, 2⁵³). The draw of a token depends on the seed and the token's position in its sequence
   * alone, so turns of one sequence may share a seed; members of a group must not.
   */
  readonly seed: number;
}

/** A token as soon as it is sampled. */
export interface SampledToken {
  readonly token: number;
  /** As in {@link Generated}. */
  readonly logprob: number;
  /** With `GenerateOptions.likeliest`: the token's log-probability under the raw softmax. */
  readonly own?: number;
  /** With `GenerateOptions.likeliest`: so many tokens, likeliest first, under the raw softmax. */
  readonly likeliest?: readonly { readonly token: number; readonly logprob: number }[];
}

export interface GenerateOptions {
  /** Tokens that come before the new ones: a tool's response, the template's delta. Only these are evaluated. */
  readonly append?: Int32Array;
  /** Tokens to sample at most, at least 1. */
  readonly maxTokens: number;
  readonly sampling: Sampling;
  /** Ids that end the turn. The sampled one is kept. */
  readonly stop: readonly number[];
  /** Milliseconds of the clock (`Date.now()`). Time spent waiting for a slot counts. */
  readonly deadline?: number;
  readonly signal?: AbortSignal;
  /** Hears every token as it is sampled, the last one before `generate` resolves. Must not throw. */
  readonly onToken?: (sampled: SampledToken) => void;
  /** `onToken` is told so many of the likeliest tokens at each place, at most 1024. Each place costs a pass over the logits. */
  readonly likeliest?: number;
}

export type GenerateStop =
  /** A stop token was sampled; it is the last of `tokens`. */
  | "stop"
  /** `maxTokens` were sampled. */
  | "length"
  /** The sequence has `contextPerSequence` tokens; or `append` leaves no room, and was not appended. */
  | "context"
  /** The signal was aborted or the sequence closed. Tokens sampled until then are part of the sequence. */
  | "cancelled"
  | "deadline";

export interface Generated {
  /** Sampled ids, a stop token included. */
  readonly tokens: Int32Array;
  /** Natural log of each token's probability under the distribution it was drawn from; 0 at temperature 0. */
  readonly logprobs: Float32Array;
  readonly stop: GenerateStop;
  /** Seconds from the call until the turn had a slot, or until its end when it never had one. */
  readonly waitedSeconds: number;
}

/** One token sequence and its KV. It takes a slot at its first `generate` and keeps it until it is closed. */
export interface Sequence {
  /** Tokens so far: prompt, appended and sampled ones. */
  readonly length: number;
  /**
   * Samples the next turn. One call at a time. Waits while all slots are busy.
   * @throws HoneError when the engine sleeps or was closed, or when llama.cpp fails; EngineOutOfMemory where memory was
   * lacking
   */
  generate(options: GenerateOptions): Promise<Generated>;
  /** Gives the slot back. A turn that runs ends with "cancelled". */
  close(): void;
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
   * them: to the hundredth of a MiB. What a backend takes beside them (its own code, CUDA's pools) is not counted.
   */
  readonly buffers: readonly {
    readonly place: string;
    readonly weights: number;
    readonly adapters: number;
    readonly kv: number;
    readonly compute: number;
    /** For logits on their way to the host. */
    readonly output: number;
  }[];
  readonly devices: readonly { readonly name: string; readonly totalBytes: number; readonly freeBytes: number }[];
}

/** Counters since the engine was loaded, of all threads together. */
export interface EngineStats {
  /** Sampled tokens. */
  readonly decoded: number;
  /** Tokens evaluated that were not sampled just before: prompts, appended tokens, scored tokens. */
  readonly prefilled: number;
  /** Prompt tokens whose KV was taken from another sequence instead of being evaluated. */
  readonly reused: number;
  /** `llama_decode` calls. */
  readonly batches: number;
  /** Passes over the weights that these took: one each where nothing cuts them. */
  readonly passes: number;
  /** Passes for which llama.cpp kept the graph of the one before, as they had its shape. */
  readonly graphsReused: number;
  /** KV copies made to share a prefix. */
  readonly forks: number;
  /** KV copies made to close gaps between the slots in use. */
  readonly moves: number;
  /** Sequences between turns whose slot was given to one that waited; they are evaluated again when they go on. */
  readonly evicted: number;
  /** CPU threads in use right now: fewer than `EngineInfo.threads` while other programs keep cores busy. */
  readonly threads: number;
  /** Of a lane, in the mean over all. */
  readonly seconds: {
    /** Inside llama.cpp. */
    readonly decode: number;
    readonly sampling: number;
    /** Everything else while there was work: building batches, handing out results. */
    readonly scheduling: number;
    /** With nothing to do. */
    readonly waiting: number;
  };
  /** Right now. */
  readonly sequences: {
    /** Those that can be evaluated at once: `EngineInfo.sequences`, or fewer since a `wake`. */
    readonly slots: number;
    readonly open: number;
    readonly running: number;
    readonly queued: number;
  };
}

export interface Engine {
  readonly info: EngineInfo;
  /** The adapter in use, as given to `useAdapter`. */
  readonly adapter: string | null;
  /** Ids of a text. Never adds `bos`. With `special`, texts of control tokens become those tokens. */
  tokenize(text: string, options: { readonly special: boolean }): Int32Array;
  /** Text of ids; bytes that are not UTF-8 become U+FFFD. Control tokens are left out unless `special` is true. */
  detokenize(tokens: ArrayLike<number>, options?: { readonly special?: boolean }): string;
  /** The same as raw bytes: a token may hold a part of a character. */
  bytes(tokens: ArrayLike<number>, options?: { readonly special?: boolean }): Uint8Array;
  /**
   * `count` sequences with one common prompt. It is evaluated once, when the first of them generates; the others fork
   * its KV as they get slots.
   * @throws HoneError when the prompt is empty, holds unknown ids, or can never fit
   */
  openGroup(prompt: Int32Array, count: number): Sequence[];
  /** A group of one. */
  open(prompt: Int32Array): Sequence;
  /**
   * Log-probabilities of given tokens under the raw softmax: entry i is that of `tokens[from + i]`, given all tokens
   * before it. `from` is at least 1 (default): the first token has nothing before it.
   */
  score(tokens: Int32Array, options?: { readonly from?: number; readonly signal?: AbortSignal }): Promise<Float32Array>;
  /**
   * Puts a LoRA adapter (GGUF) on the model, or takes it off (null), for all sequences of all threads. Turns asked for
   * before the call finish under the old weights, turns asked for after it run under the new ones. Open sequences keep
   * their tokens; their KV is evaluated again. One path must always name the same content: use a new path per version.
   *
   * An engine that sleeps wakes with the adapter. Without its weights it checks no more than that the file is GGUF: an
   * adapter that does not fit the model makes `wake` fail, until another is set. After a failure the adapter in use
   * stays.
   */
  useAdapter(path: string | null): Promise<void>;
  /**
   * Gives the KV back, on request the weights too. Turns asked for before finish first; turns asked for while the
   * engine sleeps are refused. Open sequences keep their tokens and are evaluated again after `wake`.
   */
  sleep(options?: { readonly weights?: boolean }): Promise<void>;
  /**
   * Takes the KV again, and the weights where they were given back. With `sequences` it wakes with so many of those that it
   * was loaded with, at least one a lane, so that a run goes on whose KV has no room any more; the others wait for their
   * turn. Default: as many as before. Does nothing when the engine is awake. After a failure it sleeps as before.
   * @throws HoneError when the number cannot be, or the engine is awake with another; EngineOutOfMemory where memory is
   * lacking
   */
  wake(options?: { readonly sequences?: number }): Promise<void>;
  /**
   * Decodes with so many CPU threads from the next batch on, at most those of its load, so that work of one's own finds
   * a core free; undefined: with those of its load again, giving way to other programs as before. Every lane keeps one.
   */
  holdThreads(threads: number | undefined): void;
  memory(): EngineMemory;
  stats(): EngineStats;
  /** Closes this thread's sequences. The engine itself is freed when the last of its users has closed it. */
  close(): Promise<void>;
}
