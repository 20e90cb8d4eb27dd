/** What docs/results.md, docs/serve.md and docs/models.md say of trainings beside their tables. */
import { atEnd, type Outcome, outcomesOf, percent, resultsOf, type Share } from "../figures.js";

interface Pair {
  readonly first: string;
  readonly second: string;
  readonly success: Readonly<Record<"difference" | "low" | "high" | "p", number>>;
}
type Email = Outcome & { readonly heldOutPairs: readonly Pair[] };

const mean = (values: readonly number[]) => values.reduce((sum, one) => sum + one, 0) / values.length;
const seeds = outcomesOf("smollm2-2026-11-24-amd-epyc-2-cores.json").filter(({ name }) => name.startsWith("seed"));
const STEPS = 16;
const stepSeconds = seeds.map(({ phases }) => (phases.total / STEPS).toFixed(0)).map(Number);
const part = (at: number, name: string) =>
  mean(seeds.map(({ heldOut }) => heldOut.at(at)?.parts[name]?.mean ?? Number.NaN));
const right = (at: number) => percent(part(at, "right") / part(at, "named"), 0);

const [email] = resultsOf("smollm2-email-2026-11-25-amd-epyc-2-cores.json").outcomes as [Email];
const [qwen, again, random] = resultsOf("qwen2.5-email-2026-11-28-amd-epyc-2-cores.json").outcomes as [
  Email,
  Email,
  Email,
];

/** What the steps after imitation change. */
const changed = ({ heldOutPairs }: Email) =>
  (heldOutPairs.find(({ first, second }) => first === "0" && second === "latest") as Pair).success;

const bounds = ({ low, high }: Pair["success"]) => `${percent(low, 1)} to ${percent(high, 1)}`;

/** What they add. */
const added = (outcome: Email) =>
  `add ${percent(changed(outcome).difference, 1)} points of success to imitation (95 % interval ${bounds(changed(outcome))}, p < 0.001)`;

/** The share of updates and of rollouts in the time of all steps. */
const shares = ({ phases }: Email) =>
  `(${percent(phases.update / phases.total, 0)} % of it updates, ${percent(phases.rollouts / phases.total, 0)} % rollouts)`;

const weights = ["q8_0", "q4_1", "q4_k_m"].map((type) => `SmolLM2-135M ${type}`);
const speed = resultsOf("speed-2026-11-26-intel-xeon-processor-2-cores.json").rows as readonly Record<
  string,
  unknown
>[];
const besideF16 = (name: string) =>
  weights.map((model) => {
    const row = speed.find((one) => one.model === model && one.name === `train/weights ${name}`);
    return (Number(row?.ours) / Number(row?.theirs)).toFixed(2);
  });
const [step, memory] = [besideF16("step"), besideF16("memory")];

const f16 = speed.find((one) => one.model === weights[0] && one.name === "train/weights memory");

export const saidInResults: readonly string[] = [
  `before and after ${STEPS} steps of 8 words`,
  `steps took ${Math.min(...stepSeconds)} to ${Math.max(...stepSeconds)} s on average`,
  `took ${(qwen.phases.total / 60).toFixed(0)} minutes for the steps ${shares(qwen)}`,
  `of the memory, ${(Number(f16?.theirs) / 1000).toFixed(1)} GB with f16`,
  `${percent(part(0, "named"), 1)} % of the texts name a kind before and ${percent(part(-1, "named"), 1)} % after`,
  `of those ${right(0)} % are right before and ${right(-1)} % after`,
  added(email),
  added(qwen),
  `Seed 2's add ${percent(changed(again).difference, 1)} points (${bounds(changed(again))}, p < 0.001) to imitation played again (${percent((again.heldOut[1] as Share).success, 1)} %)`,
  `imitation solved ${atEnd([random.heldOut[0] as Share], 0)}, and steps with random rewards took ${percent(-changed(random).difference, 1)} points from that (${percent(-changed(random).high, 1)} to ${percent(-changed(random).low, 1)}, p = ${changed(random).p.toFixed(3)})`,
  `a step took ${step[0]} (Q8_0), ${step[1]} (Q4_1) and ${step[2]} times (Q4_K_M) as long, and ${memory[0]}, ${memory[1]} and ${memory[2]} of the memory`,
];

const distance = (file: string) =>
  mean(
    outcomesOf(file)
      .filter(({ name }) => name.startsWith("seed"))
      .map(({ mismatch }) => mismatch.mean),
  );
const [eight, four, mixed] = ["q8_0", "q4_1", "q4_k_m"].map((type) =>
  distance(`smollm2-${type}-2026-11-25-amd-epyc-2-cores.json`).toFixed(2),
);

/** What docs/models.md says of quantised weights: Q8_0 and Q4_1 have the same distance. */
export const saidOfWeights: readonly string[] = [
  `the mean distance is ${[...new Set([eight, four])].join(" and ")} nats in Q8_0 and Q4_1 and ${mixed} in Q4_K_M`,
  `SmolLM2's distance is then ${distance("smollm2-2026-11-24-amd-epyc-2-cores.json").toFixed(4)} nats in f16`,
];
