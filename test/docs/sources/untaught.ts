/** Trainings of the base that was never taught the email task, as docs/tiny-model.md and README have them. */
import { meanOf, type Outcome, outcomesOf, percent, resultsOf, type Share } from "../figures.js";
import type { Source } from "./source.js";

const outcomes = outcomesOf("untaught-2026-11-23-intel-xeon-processor-2-cores.json");
const [sums] = outcomesOf("word-sums-2026-11-23-intel-xeon-processor-2-cores.json");
const ofKind = (kind: string) => outcomes.filter(({ name }) => name.startsWith(kind));

/** What the rollouts of several runs' held-out questions did: their steps, in the runs of a kind. */
function rollouts(label: string, runs: readonly Outcome[], at: 0 | -1): string[] {
  const shares = runs.map(({ heldOut }) => heldOut.at(at) as Share);
  const part = ({ parts }: Share, name: string) => parts[name]?.mean ?? Number.NaN;
  const sum = (of: (share: Share) => number) => shares.reduce((total, share) => total + of(share), 0);
  const read = Math.round(sum((share) => part(share, "read") * share.n));
  const right = Math.round(sum((share) => part(share, "right") * share.n));
  const in100 = (of: (share: Share) => number) => ((100 * sum(of)) / sum(({ n }) => n)).toFixed(1);
  const malformed = ({ tool_errors: causes }: Share) => causes.malformed ?? 0;
  const every = ({ tool_errors: causes }: Share) => Object.values(causes).reduce((total, count) => total + count, 0);
  return [
    label,
    meanOf(shares.map((share) => part(share, "read"))),
    `${percent(right / read, 1)} % of ${read}`,
    in100(malformed),
    in100((share) => every(share) - malformed(share)),
  ];
}

const mean = (at: 0 | -1) =>
  meanOf(ofKind("seed").map(({ heldOut }) => (heldOut.at(at) as Share).success)).split(" (")[0];

interface Try {
  readonly name: string;
  readonly training: readonly number[];
}
const tries: readonly Try[] = resultsOf("untaught-tries-2026-11-22-amd-epyc-2-cores.json").outcomes;
const byDefault = tries.filter(({ name }) => /^seed \d, default rate|gspo$/.test(name));

/** Success of a game of fishing in which each of six casts is at random: three fish or more, of one lake in four. */
function atRandom(): number {
  const ways = [20, 15, 6, 1];
  return ways.reduce((sum, count, index) => sum + count * 0.25 ** (3 + index) * 0.75 ** (3 - index), 0);
}

/** The step at which these runs pass 70 %. */
const passed = new Set(byDefault.map(({ training }) => 1 + training.findIndex((success) => success > 0.7)));

export const tinyModel: Source = {
  page: "docs/tiny-model.md",
  tables: [
    {
      header: "rollouts of held-out questions, sampled",
      rows: [
        rollouts("before training", ofKind("seed"), 0),
        rollouts("the task's reward, 5 seeds", ofKind("seed"), -1),
        rollouts("rewards 0 and 1 alone, 5 seeds", ofKind("success"), -1),
        rollouts("control: random rewards, 3 seeds", ofKind("coins"), -1),
      ],
    },
  ],
  measured: [
    `on ${outcomes[0]?.heldOut[0]?.n} test questions that were in no validation`,
    `on ${outcomes[0]?.unseenNames[0]?.n} of a world`,
    `on ${outcomes[0]?.validations[0]?.n} questions, with`,
    `this base passes 70 % at step ${[...passed].join(" or ")},`,
    `Success on ${sums?.heldOut[0]?.n} test questions that no validation had`,
    `the runs' own validations on ${sums?.validations[0]?.n} other questions`,
    `Casting at random solves ${percent(atRandom(), 1)} % of the games`,
  ],
  declared: [
    ["pays 0.1 for opening the right mail", "src/tasks/email/reward.ts", "read: 0.1"],
    ["learning rate 0.002,", "src/config/run-options.ts", "tiny: 2e-3"],
    ["8 questions a step", "src/config/run-options.ts", "bySize: { tiny: 8, small: 8 }"],
    ["a model of 0.55 million parameters", "models/word-sums/README.md", "0.55 million parameters"],
    ["after 20 steps", "bench/results/word-sums-2026-11-23-intel-xeon-processor-2-cores.json", "--steps 20"],
    ["temperature of 0.5", "bench/results/word-sums-2026-11-23-intel-xeon-processor-2-cores.json", "--temperature 0.5"],
  ],
  elsewhere: ["success", "run"],
  plain: [
    '"Ann has 36 pears and loses 4 of them and then orders 2 times as many.',
    "solves 1 in 4 of the sums with one verb",
    "and 1 in 16 of those with two",
    "at temperature 1 more calls",
    "At 1 an unlikely token",
    "rewards of 0 and 1 alone",
  ],
};

export const readme: Source = {
  page: "README.md",
  tables: [],
  measured: [`success before and after (${mean(0)} and ${mean(-1)}, means of`],
  declared: [],
  elsewhere: ["200 held-out questions"],
  plain: ["8 GB train ``, 12 GB ``, 16 GB ``, 24 GB `` and 80 GB ``"],
};
