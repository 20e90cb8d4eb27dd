/** Measured numbers of pages that have few of them. */
import { outcomesOf, resultsOf } from "../figures.js";
import { saidOfWeights } from "./trainings.js";

interface Fault {
  readonly name: string;
  readonly step: number | null;
}
const faults: readonly Fault[] = resultsOf("prove.json").faults;
const biased = faults.find(({ name }) => name === "a sampler biased by 2 %");

/** The largest distance of engine and learner in the runs of SmolLM2. */
const furthest = Math.max(
  ...["2026-11-24", "q8_0-2026-11-25", "q4_1-2026-11-25", "q4_k_m-2026-11-25"].flatMap((run) =>
    outcomesOf(`smollm2-${run}-amd-epyc-2-cores.json`).map(({ mismatch }) => mismatch.mean),
  ),
);

/** Phrases made from files of bench/results, by page. */
export const measuredElsewhere: readonly (readonly [page: string, phrase: string])[] = [
  ...saidOfWeights.map((phrase) => ["docs/models.md", phrase] as const),
  ["docs/trust.md", `biased by 2 % was seen in step ${biased?.step}`],
  ["docs/trust.md", `rounding alone was at most ${furthest.toFixed(2)} nats in every type of weights`],
];
