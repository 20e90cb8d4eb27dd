/**
 * Conversations of the engine with the test models, and what transformers says of their tokens: exactly, and rounded as a
 * device may round. huggingface.full.test.ts compares CPU libraries with it, parity.gpu.test.ts a GPU.
 */
import { spawn, spawnSync } from "node:child_process";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { modelPath } from "../../bench/models.js";
import type { LocalEngineOptions } from "../../src/core/engine/engine.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { Random } from "../../src/core/util/random.js";

const families = [
  "qwen2",
  "qwen3",
  "llama",
  "mistral",
  "smollm3",
  "granite",
  "olmo2",
  "gemma3",
  "phi3",
  "lfm2",
  "yarn",
] as const;
const weightTypes = ["f32", "f16", "q8_0"] as const;
const adapters = ["none", "adapter-1", "adapter-2"] as const;
type Weights = (typeof weightTypes)[number];

/**
 * With f32 weights, and so f32 KV, engine and transformers compute the same in another order. A sum rounds by 2⁻²⁴ of
 * its size, sums of up to 352 terms by a few times that, and some forty follow each other: 2e-6 of logits of about 10.
 * Errors of logic are larger: already KV in f16 puts log-probabilities off by 3e-4 in the mean.
 */
const EXACT = { mean: 2e-5, max: 4e-4 };
/**
 * With other weights the kernels round the operands of their products too, each CPU library and each device in its own
 * way. huggingface.py rounds all that any of them rounds; how far that takes transformers from its own exact figures
 * depends on the model and the tokens, and not on a machine. The engine's roundings are others of the same size, or none
 * where a kernel keeps f32: its gaps are expected to be as large, or smaller. The room is for two samples of 50 gaps,
 * whose means differ by a third and whose largest by half at times, and for kernels that also add in 16 bits (Arm).
 */
const ROOM = { mean: 2.5, max: 4 };
const TURN = 25;

export interface Conversation {
  readonly tokens: number[];
  /** For each token of `tokens` that was sampled: its position, and the engine's raw log-probability. */
  readonly sampled: { readonly at: number; readonly logprob: number }[];
}

export interface Played {
  readonly alone: Conversation;
  readonly batched: Conversation[];
  /** What the engine itself says of `alone.tokens`, from the second on, when it is given them. */
  readonly scored: number[];
  /** The same without the adapter. */
  readonly scoredWithout: number[];
}

interface Answer {
  /** transformers' log-probabilities: entry i is that of token i + 1. */
  readonly exact: number[];
  readonly rounded: number[];
}

export const cases = families.flatMap((family) =>
  weightTypes.flatMap((weights) => adapters.map((adapter) => ({ family, weights, adapter }))),
);
export type Case = (typeof cases)[number];
export const caseName = ({ family, weights, adapter }: Case) => `${family} ${weights} ${adapter}`;
export const caseModel = ({ family, weights }: Case) => modelPath(`${family}-tiny-${weights}.gguf`);

const randomIds = (count: number, ...seed: (string | number)[]) => {
  const random = new Random(...seed);
  return Array.from({ length: count }, () => random.integer(0, 1023));
};

function conversation({ family, adapter }: Case, index: number, seed: number) {
  const turns = [[], randomIds(15, "tool", seed)].map((append) => ({ append, maxTokens: TURN }));
  return { prompt: randomIds(30 + 9 * index, family, adapter, index), turns, seed };
}

/**
 * Plays cases in a process of their own.
 *
 * @param engine how; as many sequences share it when the effect of batching is measured
 * @param binaries see cpu-libraries.ts
 * @throws Error with its first words when the process fails
 */
export async function playCases(
  played: readonly Case[],
  engine: Pick<LocalEngineOptions, "gpu" | "sequences" | "ubatch" | "exact">,
  binaries?: object,
): Promise<{ libraries: string[]; played: Map<string, Played> }> {
  const child = spawn(process.execPath, [join(packageRoot, "test/engine/conversations.mjs")]);
  const input = {
    door: join(packageRoot, "dist/src/engine/factory.js"),
    binaries,
    engine,
    cases: played.map((one) => ({
      model: caseModel(one),
      adapter: one.adapter === "none" ? null : modelPath(`${one.family}-tiny-${one.adapter}.gguf`),
      alone: conversation(one, 0, 100),
      batched: Array.from({ length: engine.sequences }, (_, index) => conversation(one, index, index)),
    })),
  };
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  // A test that ran out of time does not leave it behind.
  const end = () => child.kill("SIGKILL");
  process.once("exit", end);
  void ended.then(() => process.off("exit", end));
  child.stdin.end(JSON.stringify(input));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  if (code !== 0) {
    const said = stderr.split("\n").find((line) => /^\w*Error: /.test(line)) ?? stderr.trim();
    throw new Error(said || `conversations.mjs ended with ${child.signalCode ?? code}`);
  }
  const said = JSON.parse(stdout) as { libraries: string[]; played: Played[] };
  return { ...said, played: new Map(played.map((one, i) => [caseName(one), said.played[i] as Played])) };
}

/** transformers' answers to conversations. */
export class Reference {
  readonly #answers = new Map<Conversation, Answer>();

  /**
   * Asks about all at once: loading transformers takes longer than the work.
   *
   * @param sums in which the kernels add: a CPU's in f32, a GPU's for more than 8 rows at times in f16
   */
  ask(python: string, sums: "f16" | "f32", all: readonly { one: Case; conversation: Conversation }[]): void {
    const input = all.map(({ one: { family, weights, adapter }, conversation: { tokens } }) => ({
      model: modelPath(`${family}-tiny`),
      adapter: adapter === "none" ? null : modelPath(`${family}-tiny-${adapter}`),
      weights,
      sums,
      tokens,
    }));
    const script = fileURLToPath(new URL("./huggingface.py", import.meta.url));
    const { status, stdout, stderr } = spawnSync(python, [script], {
      input: JSON.stringify({ cases: input }),
      encoding: "utf8",
      maxBuffer: 2 ** 28,
    });
    if (status !== 0) throw new Error(stderr);
    const { logprobs, rounded } = JSON.parse(stdout) as { logprobs: number[][]; rounded: number[][] };
    all.forEach(({ conversation }, i) => {
      this.#answers.set(conversation, { exact: logprobs[i] as number[], rounded: rounded[i] as number[] });
    });
  }

  #answerTo(conversation: Conversation): Answer {
    return this.#answers.get(conversation) as Answer;
  }

  /** The sampled tokens' log-probabilities, the engine's and transformers'. */
  #sampledBy(conversation: Conversation): Pair[] {
    return conversation.sampled.map(({ at, logprob }) => [
      logprob,
      this.#answerTo(conversation).exact[at - 1] as number,
    ]);
  }

  /** How far rounding takes transformers from itself, on the sampled tokens. */
  #roundedBy(conversation: Conversation): Pair[] {
    return conversation.sampled.map(({ at }) => {
      const { exact, rounded } = this.#answerTo(conversation);
      return [rounded[at - 1] as number, exact[at - 1] as number];
    });
  }

  /**
   * How far apart two computations of the same tokens may be that both round: each is at most so far from the exact one.
   */
  betweenTwo(one: Case, played: Played): number {
    return 2 * Math.max(...this.ways(one, played).map(({ limit }) => limit.max));
  }

  /** Ways to come by log-probabilities, each held to the limits of its own tokens. */
  ways({ weights }: Case, { alone, batched, scored }: Played) {
    const { exact, rounded } = this.#answerTo(alone);
    const at =
      (theirs: readonly number[]) =>
      (ours: number, i: number): Pair => [ours, theirs[i] as number];
    const all = [
      { way: "alone", pairs: this.#sampledBy(alone), rounding: this.#roundedBy(alone), count: 2 * TURN },
      {
        way: `${batched.length} at once`,
        pairs: batched.flatMap((one) => this.#sampledBy(one)),
        rounding: batched.flatMap((one) => this.#roundedBy(one)),
        count: batched.length * 2 * TURN,
      },
      { way: "scored", pairs: scored.map(at(exact)), rounding: rounded.map(at(exact)), count: alone.tokens.length - 1 },
    ];
    return all.map(({ rounding, ...way }) => ({
      ...way,
      ...difference(way.pairs),
      limit: limits(weights, difference(rounding)),
    }));
  }
}

export type Pair = readonly [ours: number, theirs: number];

export function difference(pairs: readonly Pair[]) {
  const gaps = pairs.map(([ours, theirs]) => Math.abs(ours - theirs));
  // A NaN must not vanish in a maximum.
  const max = gaps.reduce((a, b) => (b > a || Number.isNaN(b) ? b : a), 0);
  return { mean: gaps.reduce((a, b) => a + b, 0) / gaps.length, max };
}

function limits(weights: Weights, rounding: { mean: number; max: number }) {
  // With f32 weights nothing is rounded but the numbers of GELU's table.
  const { mean, max } = weights === "f32" ? EXACT : { mean: 0, max: 0 };
  return { mean: mean + ROOM.mean * rounding.mean, max: max + ROOM.max * rounding.max };
}

/** Where each way of a case came out, of what is allowed: one line for people. */
export const figuresOf = (ways: ReturnType<Reference["ways"]>) =>
  ways
    .map(({ way, mean, max, limit }) => {
      const [a, b, c, d] = [mean, max, limit.mean, limit.max].map((figure) => figure.toExponential(1));
      return `${way} ${a} ${b} (of ${c} ${d})`;
    })
    .join("  ");
