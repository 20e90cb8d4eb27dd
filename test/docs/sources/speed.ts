/** Figures of `yarn bench` as docs/speed.md has them. */
import { resultsOf } from "../figures.js";
import type { Source } from "./source.js";

interface Row {
  readonly name: string;
  readonly model: string;
  readonly sequences: number | null;
  readonly ours: number;
  readonly theirs: number;
  readonly ratio: number;
  readonly note: string;
  readonly rounds: readonly { readonly ours: number; readonly theirs: number }[];
}

const XEON = "intel-xeon-processor-2-cores";
const rowsOf = (file: string): Row[] => resultsOf(`speed-2026-11-${file}.json`).rows;
const [first, third, fourth] = [21, 23, 26].map((day) => rowsOf(`${day}-${XEON}`)) as [Row[], Row[], Row[]];
const epyc = rowsOf("25-amd-epyc-2-cores");
const productTypes = ["bf16", "f16", "int8"].map((type) =>
  row(rowsOf("30-amd-epyc-2-cores"), `learner/product-types ${type}`),
);

const LARGE = "qwen2-0.5b-shape-f16.gguf";

function row(rows: readonly Row[], name: string, model?: string, sequences?: number): Row {
  const found = rows.filter(
    (one) =>
      one.name === name &&
      (model === undefined || one.model === model) &&
      (sequences === undefined || one.sequences === sequences),
  );
  if (found.length !== 1) throw new Error(`${found.length} rows ${name} ${model} ${sequences}`);
  return found[0] as Row;
}

const two = (value: number) => value.toFixed(2);
const ratios = ({ rounds }: Row) => rounds.map(({ ours, theirs }) => ours / theirs);
/** The median of the rounds, with the lowest and the highest. */
const ranged = (one: Row) => `${two(one.ratio)} (${two(Math.min(...ratios(one)))} to ${two(Math.max(...ratios(one)))})`;
const cpuTime = ({ note }: Row) => two(Number(/CPU time ([\d.]+) times/.exec(note)?.[1]));

const decode = (rows: readonly Row[], model: RegExp) =>
  rows
    .filter((one) => one.name === "decode/llama-batched-bench" && model.test(one.model))
    .toSorted((a, b) => Number(a.sequences) - Number(b.sequences));
const list = (rows: readonly Row[], of: (one: Row) => string) => rows.map(of).join(", ");
const decoding = (rows: readonly Row[], model: RegExp) => {
  const found = decode(rows, model);
  return [list(found, ({ sequences }) => String(sequences)), list(found, ({ ratio }) => two(ratio))] as const;
};
const smollm2 = decode(epyc, /^SmolLM2/);
const speeds = smollm2.map(({ ours }) => Math.round(ours));

const playing = (name: string) => row(third, `rollout/llama-server/${name}`, "tiny.gguf");
const large = (name: string) => row(third, `rollout/llama-server/${name}`, LARGE);
const agent = (name: string, model: string) => row(fourth, `rollout/agents/${name}`, model);
const agents = (kind: string, model: string) => {
  const [sdk, http] = [agent(`ai-sdk${kind}`, model), agent(`http${kind}`, model)];
  return [ranged(sdk), ranged(http), `${cpuTime(sdk)}, ${cpuTime(http)}`];
};
const judged = (model: string) => row(first, "judge/overlap", model);
const tinyJudged = judged("tiny.gguf");
const served = (turns: string, sequences: number) =>
  ranged(row(third, `serve/llama-server/${turns}`, LARGE, sequences));

const both = (name: string) => list([row(third, `learner/${name} speed`)], (one) => ratios(one).map(two).join(", "));
const memory = (name: string) =>
  row(third, `learner/${name} memory`)
    .rounds.map(({ ours, theirs }) => two(theirs / ours))
    .join(", ");
const learners = (name: string) => [both(name), memory(name)];
const update = row(epyc, "learner/trl speed");
/** The lengths in a row's note, as the page says them. */
const lengths = ({ note }: Row) => {
  const [, prompts, parts] = /prompts of (\d+ to \d+) tokens.* own parts of (\d+ to \d+)/.exec(note) ?? [];
  return `prompts of ${prompts} tokens and own parts of ${parts}`;
};

const differences = ({ note }: Row) => /differs from f32 by ([\d.]+)/.exec(note)?.[1] as string;
const series = ([first, second, third]: readonly string[]) => `${first}, ${second} and ${third}`;

export const speed: Source = {
  page: "docs/speed.md",
  tables: [
    {
      header: "model",
      rows: [
        ["0.5B shape, f16", ...decoding(third, /^qwen2-0.5b/)],
        [
          "SmolLM2-135M, f16 (AMD EPYC)",
          decoding(epyc, /^SmolLM2/)[0],
          `${decoding(epyc, /^SmolLM2/)[1]} (${speeds[0]}, ${speeds[1]} and ${speeds[2]} tokens a second)`,
        ],
        ["tiny model", ...decoding(third, /^qwen2-tiny/)],
      ],
    },
    {
      header: "beside llama-server",
      rows: [
        [
          "tiny model, 16 at once, groups of 4",
          ranged(playing("group-4")),
          ranged(playing("group-4/no-logprobs")),
          "1.5",
        ],
        [
          "tiny model, 16 at once, groups of 8",
          ranged(playing("group-8")),
          ranged(playing("group-8/no-logprobs")),
          "1.5",
        ],
        ["0.5B shape, 8 at once, groups of 4", ranged(large("group-4")), "", "1.3"],
        ["0.5B shape, 8 at once, groups of 8", ranged(large("group-8")), "", "1.3"],
      ],
    },
    {
      header: "agents of",
      rows: [
        ["tiny model", ...agents("", "tiny.gguf")],
        ["tiny model, a core left to the agents' code", ...agents("/free-core", "tiny.gguf")],
        ["the same model with 100 million weights more", ...agents("", "tiny-wide-f16.gguf")],
      ],
    },
    {
      header: "conversations at once",
      rows: [1, 8, 32].map((at) => [String(at), served("one-turn", at), served("three-turns", at)]),
    },
    {
      header: "hone with",
      rows: [
        ["PEFT", "TRL's trainer", ...learners("trl")],
        ["Unsloth", "Unsloth's GRPO", ...learners("unsloth")],
        ["PEFT, prefixes shared", "Unsloth, whole rollouts", ...learners("unsloth shared prefixes")],
        ["PEFT, rollouts of a run's first step", "TRL's trainer", ...learners("trl/played")],
      ],
    },
  ],
  measured: [
    `has ${two(judged(LARGE).ratio)} times the speed for the 0.5B shape, and ${two(tinyJudged.ratio)} for the tiny model`,
    lengths(row(third, "learner/trl speed")),
    `have a cosine of ${row(third, "learner/trl gradient").ours.toFixed(0)}:`,
    `${lengths(update)}: ${two(update.ratio)} times as fast`,
    `takes ${two(row(epyc, "learner/trl memory").ratio)} times the memory`,
    `8 bits are ${series(productTypes.map(({ ratio }) => two(ratio)))} times as fast as in f32, and differ by ${series(productTypes.map(differences))} of`,
  ],
  declared: [
    ["goal: 0.97", "bench/rows/decode-llama-batched-bench.ts", "ratio >= 0.97"],
    ["loop (goal: 0.97)", "bench/rows/rollout-agents.ts", "TARGET = 0.97"],
    ["64 rollouts in 8 groups", "bench/rows/learner-trl.ts", "64 rollouts in 8 groups"],
    ["2 groups of 4", "bench/notebook/main.ts", "groups: 2,\n  size: 4,"],
    ["learning rate 1e-5", "bench/notebook/main.ts", "learningRate: 1e-5"],
    ["up to 3 rounds of calls", "bench/notebook/main.ts", "TRL_TURNS = 3;"],
  ],
  elsewhere: ["the notebook"],
  plain: ["TRL takes 4.8 times as long for a step."],
};
