/** Trainings of the tiny model, as docs/tiny-model.md and README have them. */
import { meanOf, type Outcome, outcomesOf, percent, type Share } from "../figures.js";
import type { Source } from "./source.js";

const outcomes = outcomesOf("tiny-2026-11-23-intel-xeon-processor-2-cores.json");
const ofKind = (kind: string) => outcomes.filter(({ name }) => name.startsWith(kind));

/** Success of several runs in each evaluation. */
function successes(label: string, runs: readonly Outcome[], at: 0 | -1): string[] {
  const mean = (shares: (one: Outcome) => readonly Share[]) =>
    meanOf(runs.map((one) => (shares(one).at(at) as Share).success));
  return [
    label,
    mean(({ heldOut }) => heldOut),
    mean(({ greedy }) => greedy),
    mean(({ unseenNames }) => unseenNames),
    mean(({ unseenNamesGreedy }) => unseenNamesGreedy),
  ];
}

/** What the rollouts of held-out questions did, in the runs that the task's reward trained. */
function rollouts(at: 0 | -1) {
  const shares = ofKind("seed").map(({ heldOut }) => heldOut.at(at) as Share);
  const part = ({ parts }: Share, name: string) => parts[name]?.mean ?? Number.NaN;
  const sum = (of: (share: Share) => number) => shares.reduce((total, share) => total + of(share), 0);
  const read = Math.round(sum((share) => part(share, "read") * share.n));
  const right = Math.round(sum((share) => part(share, "right") * share.n));
  const malformed = sum(({ tool_errors: causes }) => causes.malformed ?? 0);
  return {
    read: `${meanOf(shares.map((share) => part(share, "read"))).split(" (")[0]}`,
    right: `${percent(right / read, 1)} %`,
    malformed: ((100 * malformed) / sum(({ n }) => n)).toFixed(1),
  };
}
const [untrained, taught] = [rollouts(0), rollouts(-1)];

const mean = (at: 0 | -1) =>
  meanOf(ofKind("seed").map(({ heldOut }) => (heldOut.at(at) as Share).success)).split(" (")[0];

/** Before training, then after it, by what trained. */
const byReward = [
  successes("before training", ofKind("seed"), 0),
  ...Object.entries({
    seed: "the task's reward",
    success: "rewards 0 and 1 alone",
    coins: "control: random rewards",
  }).map(([kind, title]) => successes(`${title}, ${ofKind(kind).length} seeds`, ofKind(kind), -1)),
];

export const tinyModel: Source = {
  page: "docs/tiny-model.md",
  tables: [{ header: "success", rows: byReward }],
  measured: [
    `on ${outcomes[0]?.heldOut[0]?.n} test questions that were in no validation`,
    `on ${outcomes[0]?.unseenNames[0]?.n} whose people`,
    `on ${outcomes[0]?.validations[0]?.n} questions, with`,
    `which ${taught.read} of the rollouts do after training and ${untrained.read} before`,
    `does not improve (${taught.right} and ${untrained.right}), and ${taught.malformed} calls in 100 rollouts are malformed, before it ${untrained.malformed}`,
  ],
  declared: [
    ["pays 0.1 for opening the right mail", "src/email/reward.ts", "read: 0.1"],
    ["models below 0.1 billion parameters", "src/core/config/sizes.ts", "tiny: 1e8"],
  ],
  elsewhere: [],
  plain: ["rewards of 0 and 1 alone"],
};

export const readme: Source = {
  page: "README.md",
  tables: [],
  measured: [`success before and after (${mean(0)} and ${mean(-1)}, means of`],
  declared: [],
  elsewhere: ["held-out questions"],
  plain: ["8 GB train ``, 12 GB ``, 16 GB ``, 24 GB `` and 80 GB ``"],
};
