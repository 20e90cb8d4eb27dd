/**
 * The engine's log-probabilities against transformers' on the same weights: for tokens that the engine sampled, in a
 * sequence of several turns, with and without an adapter, for each architecture, with several CPU libraries of
 * llama.cpp. The figures are printed.
 */
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { packageRoot } from "../../src/util/paths.js";
import { Random } from "../../src/util/random.js";
import { ensureLearnerPython } from "../support/python.js";
import { type CpuLibrary, chosen, cpuLibraries, onlyWith } from "./cpu-libraries.js";

const families = ["qwen2", "qwen3", "llama"] as const;
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
 * With other weights the kernels round the operands of their products too, each CPU library in its own way.
 * huggingface.py rounds all that any of them rounds; how far that takes transformers from its own exact figures depends
 * on the model and the tokens, and not on a machine. The engine's roundings are others of the same size, or none where
 * a kernel keeps f32: its gaps are expected to be as large, or smaller. The room is for two samples of 50 gaps, whose
 * means differ by a third and whose largest by half at times, and for kernels that also add in 16 bits (Arm).
 */
const ROOM = { mean: 2.5, max: 4 };
/** Sequences that share the engine when the effect of batching is measured. */
const BATCHED = 4;
const TURN = 25;

interface Conversation {
  readonly tokens: number[];
  /** For each token of `tokens` that was sampled: its position, and the engine's raw log-probability. */
  readonly sampled: { readonly at: number; readonly logprob: number }[];
}

interface Played {
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

const cases = families.flatMap((family) =>
  weightTypes.flatMap((weights) => adapters.map((adapter) => ({ family, weights, adapter }))),
);
type Case = (typeof cases)[number];
const caseName = ({ family, weights, adapter }: Case) => `${family} ${weights} ${adapter}`;

const python = await ensureLearnerPython();
const libraries = cpuLibraries(python);
const runnable = libraries.filter(({ score }) => score > 0);
const folder = mkdtempSync(join(tmpdir(), "hone-cpu-libraries-"));

/** What each library played, or why it played nothing. */
const results = new Map<string, Map<string, Played> | Error>();
const answers = new Map<Conversation, Answer>();

const randomIds = (count: number, ...seed: (string | number)[]) => {
  const random = new Random(...seed);
  return Array.from({ length: count }, () => random.integer(0, 1023));
};

function conversation({ family, adapter }: Case, index: number, seed: number) {
  const turns = [[], randomIds(15, "tool", seed)].map((append) => ({ append, maxTokens: TURN }));
  return { prompt: randomIds(30 + 7 * index, family, adapter, index), turns, seed };
}

/** Plays all cases in a process that has this library only. */
async function playWith(library: CpuLibrary): Promise<Map<string, Played>> {
  const child = spawn(process.execPath, [join(packageRoot, "test/engine/conversations.mjs")]);
  const input = {
    door: join(packageRoot, "dist/src/engine/index.js"),
    binaries: onlyWith(library, folder),
    sequences: BATCHED,
    cases: cases.map((one) => ({
      model: modelPath(`${one.family}-tiny-${one.weights}.gguf`),
      adapter: one.adapter === "none" ? null : modelPath(`${one.family}-tiny-${one.adapter}.gguf`),
      alone: conversation(one, 0, 100),
      batched: Array.from({ length: BATCHED }, (_, index) => conversation(one, index, index)),
    })),
  };
  const ended = new Promise<number | null>((resolve) => child.once("close", resolve));
  child.stdin.end(JSON.stringify(input));
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
  if (code !== 0) {
    const said = stderr.split("\n").find((line) => /^\w*Error: /.test(line)) ?? stderr;
    throw new Error(`nothing can be played with the CPU library "${library.name}": ${said}`);
  }
  const { libraries: ran, played } = JSON.parse(stdout) as { libraries: string[]; played: Played[] };
  if (library.name !== "") expect(ran).toEqual([`libggml-cpu-${library.name}.so`]);
  return new Map(cases.map((one, i) => [caseName(one), played[i] as Played]));
}

/** Asks transformers about all conversations at once: loading it takes longer than the work. */
function ask(): void {
  const asked = [...results.values()].flatMap((played) =>
    played instanceof Error
      ? []
      : cases.flatMap((one) => {
          const { alone, batched } = played.get(caseName(one)) as Played;
          return [alone, ...batched].map((conversation) => ({ one, conversation }));
        }),
  );
  const input = asked.map(({ one: { family, weights, adapter }, conversation: { tokens } }) => ({
    model: modelPath(`${family}-tiny`),
    adapter: adapter === "none" ? null : modelPath(`${family}-tiny-${adapter}`),
    weights,
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
  asked.forEach(({ conversation }, i) => {
    answers.set(conversation, { exact: logprobs[i] as number[], rounded: rounded[i] as number[] });
  });
}

beforeAll(async () => {
  await ensureTestModels(["tiny"], () => undefined);
  for (const library of chosen(runnable)) {
    results.set(library.name, await playWith(library).catch((error: Error) => error));
  }
  ask();
}, 600_000);

const lines: string[] = [];
afterAll(() => {
  rmSync(folder, { recursive: true });
  const cannot = libraries.filter(({ score }) => score === 0).map(({ name }) => name);
  const head = [`CPU libraries that this CPU cannot run: ${cannot.join(", ") || "none"}`];
  const about = "log-probabilities of the engine against transformers (f32): mean and largest |Δ|, of those allowed";
  console.log([about, ...head, ...lines].join("\n  "));
});

type Pair = readonly [ours: number, theirs: number];

function difference(pairs: readonly Pair[]) {
  const gaps = pairs.map(([ours, theirs]) => Math.abs(ours - theirs));
  // A NaN must not vanish in a maximum.
  const max = gaps.reduce((a, b) => (b > a || Number.isNaN(b) ? b : a), 0);
  return { mean: gaps.reduce((a, b) => a + b, 0) / gaps.length, max, count: gaps.length };
}

const answerTo = (conversation: Conversation) => answers.get(conversation) as Answer;

/** The sampled tokens' log-probabilities, the engine's and transformers'. */
const sampledBy = (conversation: Conversation): Pair[] =>
  conversation.sampled.map(({ at, logprob }) => [logprob, answerTo(conversation).exact[at - 1] as number]);

/** How far rounding takes transformers from itself, on the sampled tokens. */
const roundedBy = (conversation: Conversation): Pair[] =>
  conversation.sampled.map(({ at }) => {
    const { exact, rounded } = answerTo(conversation);
    return [rounded[at - 1] as number, exact[at - 1] as number];
  });

function limits(weights: Weights, rounding: readonly Pair[]) {
  if (weights === "f32") return EXACT;
  const { mean, max } = difference(rounding);
  return { mean: ROOM.mean * mean, max: ROOM.max * max };
}

/** Ways to come by log-probabilities: the engine's against transformers', and transformers' against its rounded ones. */
function ways({ alone, batched, scored }: Played) {
  const { exact, rounded } = answerTo(alone);
  const at =
    (theirs: readonly number[]) =>
    (ours: number, i: number): Pair => [ours, theirs[i] as number];
  return [
    { way: "alone", pairs: sampledBy(alone), rounding: roundedBy(alone), count: 2 * TURN },
    {
      way: `${BATCHED} at once`,
      pairs: batched.flatMap(sampledBy),
      rounding: batched.flatMap(roundedBy),
      count: BATCHED * 2 * TURN,
    },
    { way: "scored", pairs: scored.map(at(exact)), rounding: rounded.map(at(exact)), count: alone.tokens.length - 1 },
  ];
}

test("there is a CPU library that this CPU can run", () => {
  expect(runnable.map(({ name }) => name)).not.toEqual([]);
});

describe.each(chosen(runnable).map(({ name }) => name))("with the CPU library %s", (library) => {
  const find = (one: Case): Played => {
    const played = results.get(library) as Map<string, Played> | Error;
    if (played instanceof Error) throw played;
    return played.get(caseName(one)) as Played;
  };

  test.each(cases)("log-probabilities equal transformers': $family, $weights, $adapter", (one) => {
    const found = ways(find(one)).map((each) => ({ ...each, ...difference(each.pairs) }));
    const figures = found.map(({ way, mean, max, rounding }) => {
      const limit = limits(one.weights, rounding);
      const [a, b, c, d] = [mean, max, limit.mean, limit.max].map((figure) => figure.toExponential(1));
      return `${way} ${a} ${b} (of ${c} ${d})`;
    });
    lines.push(`${library.padEnd(8)} ${caseName(one).padEnd(20)} ${figures.join("  ")}`);
    for (const { way, pairs, rounding, count, mean, max } of found) {
      const limit = limits(one.weights, rounding);
      expect(pairs, way).toHaveLength(count);
      expect(mean, way).toBeLessThanOrEqual(limit.mean);
      expect(max, way).toBeLessThanOrEqual(limit.max);
    }
  });

  test.each(cases.filter(({ adapter }) => adapter !== "none"))(
    "an adapter changes the model, so that it is seen to work: $family, $weights, $adapter",
    (one) => {
      const { scored, scoredWithout } = find(one);
      const gap = difference(scored.map((value, i): Pair => [value, scoredWithout[i] as number]));
      expect(gap.mean).toBeGreaterThan(0.1);
    },
  );
});

// Where there is one library for all CPUs, no other can be asked for.
if (libraries.every(({ name }) => name !== "")) {
  test("a CPU library that cannot be loaded fails the tests in one line with its name", async () => {
    await expect(playWith({ name: "of-no-cpu", score: 0 })).rejects.toThrow(
      /^nothing can be played with the CPU library "of-no-cpu": [^\n]*llama\.cpp [^\n]*cannot be loaded here[^\n]*$/,
    );
  });
}
