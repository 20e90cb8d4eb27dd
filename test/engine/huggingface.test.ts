/**
 * The engine's log-probabilities against transformers' on the same weights: for tokens that the engine sampled, in a
 * sequence of several turns, with and without an adapter, for each architecture. The figures are printed.
 */
import { spawnSync } from "node:child_process";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { type Engine, loadEngine } from "../../src/engine/index.js";
import { Random } from "../../src/util/random.js";
import { ensureLearnerPython } from "../support/python.js";

const families = ["qwen2", "qwen3", "llama"] as const;
const adapters = ["none", "adapter-1", "adapter-2"] as const;
type Family = (typeof families)[number];
type Adapter = (typeof adapters)[number];

/** The limits that hone promises for f16 weights, one sequence at a time. */
const MEAN = 0.002;
const MAX = 0.02;
/** Sequences that share the engine when the effect of batching is measured. */
const BATCHED = 8;

interface Conversation {
  readonly tokens: number[];
  /** For each token of `tokens` that was sampled: its position, and the engine's raw log-probability. */
  readonly sampled: { readonly at: number; readonly logprob: number }[];
}

interface Case {
  readonly family: Family;
  readonly adapter: Adapter;
  readonly alone: Conversation;
  readonly batched: Conversation[];
  /** What the engine itself says of `alone.tokens`, from the second on, when it is given them. */
  readonly scored: Float32Array;
  /** The same without the adapter. */
  readonly scoredWithout: Float32Array;
}

const randomIds = (engine: Engine, count: number, ...seed: (string | number)[]) => {
  const random = new Random(...seed);
  return Int32Array.from({ length: count }, () => random.integer(0, engine.info.vocabularySize - 1));
};

/** Two turns with foreign tokens before each, as a rollout has them. */
async function converse(engine: Engine, prompt: Int32Array, seed: number): Promise<Conversation> {
  const sequence = engine.open(prompt);
  const tokens = [...prompt];
  const sampled: Conversation["sampled"] = [];
  for (const append of [Int32Array.of(), randomIds(engine, 20, "tool", seed)]) {
    const turn = await sequence.generate({ append, maxTokens: 60, sampling: { seed }, stop: [] });
    tokens.push(...append);
    turn.tokens.forEach((token, i) => {
      sampled.push({ at: tokens.length, logprob: turn.rawLogprobs[i] as number });
      tokens.push(token);
    });
  }
  sequence.close();
  return { tokens, sampled };
}

const cases: Case[] = [];
/** transformers' log-probabilities by conversation: entry i is that of token i + 1. */
const truth = new Map<Conversation, number[]>();

beforeAll(async () => {
  const python = await ensureLearnerPython();
  await ensureTestModels(["tiny"], () => undefined);
  for (const family of families) {
    const model = modelPath(`${family}-tiny-f16.gguf`);
    const engine = await loadEngine({ model, gpu: false, threads: 1, sequences: BATCHED, contextPerSequence: 512 });
    try {
      for (const adapter of adapters) {
        await engine.useAdapter(adapter === "none" ? null : modelPath(`${family}-tiny-${adapter}.gguf`));
        const prompts = Array.from({ length: BATCHED }, (_, i) => randomIds(engine, 40 + 7 * i, family, adapter, i));
        const alone = await converse(engine, prompts[0] as Int32Array, 100);
        const batched = await Promise.all(prompts.map((prompt, seed) => converse(engine, prompt, seed)));
        const scored = await engine.score(Int32Array.from(alone.tokens));
        await engine.useAdapter(null);
        const scoredWithout = await engine.score(Int32Array.from(alone.tokens));
        cases.push({ family, adapter, alone, batched, scored, scoredWithout });
      }
    } finally {
      await engine.close();
    }
  }
  const conversations = cases.flatMap((one) =>
    [one.alone, ...one.batched].map((conversation) => ({ one, conversation })),
  );
  const input = conversations.map(({ one, conversation }) => ({
    model: modelPath(`${one.family}-tiny`),
    adapter: one.adapter === "none" ? null : modelPath(`${one.family}-tiny-${one.adapter}`),
    tokens: conversation.tokens,
  }));
  const script = fileURLToPath(new URL("./huggingface.py", import.meta.url));
  const asked = spawnSync(python, [script], {
    input: JSON.stringify({ cases: input }),
    encoding: "utf8",
    maxBuffer: 2 ** 26,
  });
  if (asked.status !== 0) throw new Error(asked.stderr);
  const { logprobs } = JSON.parse(asked.stdout) as { logprobs: number[][] };
  conversations.forEach(({ conversation }, i) => {
    truth.set(conversation, logprobs[i] as number[]);
  });
}, 300_000);

interface Difference {
  readonly mean: number;
  readonly max: number;
  readonly count: number;
}

function difference(pairs: (readonly [number, number])[]): Difference {
  const gaps = pairs.map(([ours, theirs]) => Math.abs(ours - theirs));
  // A NaN must not vanish in a maximum.
  const max = gaps.reduce((a, b) => (b > a || Number.isNaN(b) ? b : a), 0);
  return { mean: gaps.reduce((a, b) => a + b, 0) / gaps.length, max, count: gaps.length };
}

const against = (conversation: Conversation): (readonly [number, number])[] =>
  conversation.sampled.map(({ at, logprob }) => [logprob, truth.get(conversation)?.[at - 1] ?? Number.NaN]);

const lines: string[] = [];
const report = (what: string, { mean, max, count }: Difference) =>
  lines.push(`${what.padEnd(46)} mean |Δ| ${mean.toFixed(5)}  max ${max.toFixed(5)}  n ${count}`);

afterAll(() => {
  console.log(["log-probabilities of the engine against transformers (f32), f16 weights:", ...lines].join("\n  "));
});

describe.each(families)("%s", (family) => {
  const find = (adapter: Adapter) => cases.find((one) => one.family === family && one.adapter === adapter) as Case;

  test.each(adapters)("log-probabilities equal transformers', adapter: %s", (adapter) => {
    const { alone } = find(adapter);
    const gap = difference(against(alone));
    report(`${family}, ${adapter}, alone`, gap);
    expect(gap.count).toBe(120);
    expect(gap.mean).toBeLessThanOrEqual(MEAN);
    expect(gap.max).toBeLessThanOrEqual(MAX);
  });

  test.each(adapters)("they stay equal when sequences are batched, adapter: %s", (adapter) => {
    const { batched } = find(adapter);
    const gap = difference(batched.flatMap(against));
    report(`${family}, ${adapter}, ${BATCHED} at once`, gap);
    expect(gap.count).toBe(BATCHED * 120);
    expect(gap.mean).toBeLessThanOrEqual(MEAN);
    expect(gap.max).toBeLessThanOrEqual(MAX);
  });

  test.each(adapters)("scoring given tokens equals transformers', adapter: %s", (adapter) => {
    const { alone, scored } = find(adapter);
    const gap = difference(Array.from(scored, (ours, i) => [ours, truth.get(alone)?.[i] ?? Number.NaN]));
    report(`${family}, ${adapter}, scored`, gap);
    expect(gap.count).toBe(alone.tokens.length - 1);
    expect(gap.mean).toBeLessThanOrEqual(MEAN);
    expect(gap.max).toBeLessThanOrEqual(MAX);
  });

  test.each(["adapter-1", "adapter-2"] as const)(
    "%s changes what the model says, so that it is seen to work",
    (adapter) => {
      const { scored, scoredWithout } = find(adapter);
      const gap = difference(Array.from(scored, (value, i) => [value, scoredWithout[i] as number]));
      expect(gap.mean).toBeGreaterThan(0.1);
    },
  );
});
