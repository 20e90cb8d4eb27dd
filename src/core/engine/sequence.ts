/** The contract of one sequence: tokens to append, how to sample a turn, and the sampled tokens. */
import type { AllowedTokens } from "./allowed.js";

export interface Sampling {
  /** Divides the logits. 0 takes the most likely token. Default 1. */
  readonly temperature?: number;
  /** Keep the k most likely tokens; 0 keeps all (default). */
  readonly topK?: number;
  /** Then keep the most likely tokens that together have this share of the remaining probability; 1 keeps all (default). */
  readonly topP?: number;
  /** Then drop tokens less likely than this share of the most likely one; 0 drops none (default). */
  readonly minP?: number;
  /**
   * An integer in [0, 2⁵³). The random number of a token depends only on the seed and the token's position in its
   * sequence, so turns of one sequence may share a seed; members of a group must not.
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

/** A given token under the raw softmax. */
export type ScoredToken = Required<Pick<SampledToken, "token" | "own" | "likeliest">>;

/** What a turn obeys, as a whole or from a mark on. */
export interface Grammar {
  /** GBNF with a rule `root`. */
  readonly rules: string;
  /** Marks around thoughts, which come first and are free; `opened` where the prompt has opened them. */
  readonly thoughts?: { readonly open: string; readonly close: string; readonly opened: boolean } | undefined;
  /**
   * The grammar begins with one of these marks, `first` ones only behind nothing but white space, and a turn without
   * them is free. A space in a mark stands for any white space, or none. Undefined: it begins behind the thoughts, and
   * the turn cannot end before it does.
   */
  readonly marks?: { readonly anywhere: readonly string[]; readonly first: readonly string[] } | undefined;
}

export interface GenerateOptions {
  /** Tokens before the new ones: a tool's response, the template's delta. Only these are evaluated. */
  readonly append?: Int32Array;
  /** Maximum number of tokens to sample, at least 1. */
  readonly maxTokens: number;
  readonly sampling: Sampling;
  /** Ids that end the turn. The sampled stop token is kept. */
  readonly stop: readonly number[];
  /**
   * Seconds that the turn may use, those of the batches that evaluate it. None of them are those until it has a slot, nor those in which
   * the process is stopped or has no core. Default: no limit.
   */
  readonly seconds?: number | undefined;
  readonly signal?: AbortSignal;
  /**
   * Only tokens by which the turn obeys it are sampled. Where it lets all pass, the draws are those without it. The
   * log-probabilities are those of the raw softmax, unless `restricts`.
   */
  readonly grammar?: Grammar | undefined;
  /**
   * With a grammar, for training: the log-probabilities are those of the distribution restricted to the tokens that it lets
   * pass, which are given as `allowed`. Each token costs a pass of the grammar over the vocabulary.
   */
  readonly restricts?: boolean | undefined;
  /** Tokens of the turn before this call, where a turn is sampled in several calls; for the grammar. */
  readonly before?: ArrayLike<number> | undefined;
  /** Called with every token as it is sampled, with the last one before `generate` resolves. Must not throw. */
  readonly onToken?: (sampled: SampledToken) => void;
  /** Number of likeliest tokens that `onToken` gets at each position, at most 1024. Each position costs a pass over the logits. */
  readonly likeliest?: number;
}

export type GenerateStop =
  /** A stop token was sampled; it is the last of `tokens`. */
  | "stop"
  /** `maxTokens` were sampled. */
  | "length"
  /** The sequence has `contextPerSequence` tokens; or `append` does not fit, and was not appended. */
  | "context"
  /** The signal was aborted or the sequence closed. Tokens sampled before that are part of the sequence. */
  | "cancelled"
  /** Its seconds are used up. Tokens sampled before that are part of the sequence. */
  | "deadline";

/**
 * How draws agree with the probabilities that they were drawn with: of Σ (-log p(token) - entropy), whose expected value is 0. Of
 * independent draws from whole distributions, in nats.
 */
export interface DrawStatistics {
  /** Number of draws; without those that a device made. */
  readonly tokens: number;
  /** The sum. */
  readonly deviation: number;
  /** Its variance, Σ (E[log² p] - entropy²). */
  readonly variance: number;
}

/** What the engine itself says of a turn, apart from what was asked of it: for checks. */
export interface Evaluated {
  /** Tokens of the sequence after the turn: those that were evaluated, and the last sampled one. */
  readonly tokens: number;
  /** Of their ids; see `digestOf`. */
  readonly digest: number;
  /** By which logits were divided. */
  readonly temperature: number;
  /** Top-k, top-p or min-p was in force. */
  readonly truncated: boolean;
  /** Of its keys and values some were computed with another adapter than was in use. */
  readonly foreign: boolean;
  /** From which its draws follow. */
  readonly seed: number;
  /**
   * Where it drew tokens: positions of the sequence, each from the first to the one behind the last; of several turns in order. With
   * `digestOfLogprobs` of what it told of them.
   */
  readonly drawn: readonly (readonly [from: number, to: number, logprobs?: number])[];
  /** Missing where the engine does not measure them. */
  readonly draws?: DrawStatistics;
}

export interface Generated {
  /** Sampled ids, including a stop token. */
  readonly tokens: Int32Array;
  /**
   * Natural log of each token's probability under the distribution it was drawn from; 0 at temperature 0. With a
   * grammar that does not restrict: under the raw softmax.
   */
  readonly logprobs: Float32Array;
  /** With `restricts`, of the sampled tokens; undefined where every token could come. */
  readonly allowed?: AllowedTokens | undefined;
  readonly stop: GenerateStop;
  /** Seconds from the call until the turn had a slot, or until its end when it never had one. */
  readonly waitedSeconds: number;
  /** Of `GenerateOptions.seconds`. */
  readonly usedSeconds: number;
  /** Missing where the engine does not say it. */
  readonly evaluated?: Evaluated;
}

/** One token sequence and its KV. It gets a slot at its first `generate`, and keeps it until it is closed or another needs it. */
export interface Sequence {
  /** Tokens so far: prompt, appended and sampled ones. */
  readonly length: number;
  /**
   * Samples the next turn. One call at a time. Waits while all slots are busy.
   * @throws HoneError when the engine sleeps or was closed, or when llama.cpp fails; EngineOutOfMemory for a lack of
   * memory
   */
  generate(options: GenerateOptions): Promise<Generated>;
  /** Frees the slot. A running turn ends with "cancelled". */
  close(): void;
}
