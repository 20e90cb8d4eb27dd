/** Limits, defaults and one measurement that docs/training.md names. */
import { resultsOf } from "../figures.js";
import type { Source } from "./source.js";

interface Row {
  readonly name: string;
  readonly note: string;
  readonly ratio: number;
}
const rows: readonly Row[] = resultsOf("speed-2026-11-26-intel-xeon-processor-2-cores.json").rows;
const ranks = rows.find(
  ({ name, note }) => name === "learner/ranks" && note === "2 ranks of one thread, one process of 1",
) as Row;
const ahead = (name: string) => (rows.find((row) => row.name === name) as Row).ratio.toFixed(1);

export const training: Source = {
  page: "docs/training.md",
  tables: [],
  measured: [
    `Two ranks with one thread each made an update of 64 rollouts ${ranks.ratio.toFixed(1)} times as fast as one process with one thread`,
    `was ${ahead("train/step-ahead/same-cores")} times as fast as one in turns on a core each, and ${ahead("train/step-ahead")} times as fast as one in turns on both cores`,
  ],
  declared: [
    [
      "scenarios (``: 8, below 0.1 billion parameters 16)",
      "src/trainer/training-options.ts",
      "bySize: { tiny: 16, small: 8 }",
    ],
    ["plays `` rollouts (8) of each scenario", "src/machine/input-options.ts", "bySize: { tiny: 8, small: 8 }"],
    ["plus `` (0.1)", "src/trainer/learner-options.ts", "default: 0.1,"],
    ["(2 groups of 4, 20 steps, RULER as the reward)", "src/trainer/presets.ts", "steps: 20,\n    groupsPerStep: 2,"],
    ["below ½ by 4 standard errors", "src/core/train/earlier.ts", "SURE = 4;"],
    ["bounded by `` (2)", "src/trainer/learner-options.ts", "default: 2, run"],
    ["A distance above 0.0125 nats in a run's first step", "src/guards/mismatch.ts", '["cuda", /^F16$/i, 0.0125]'],
    ["above 0.1 in Q8_0", "src/guards/mismatch.ts", '["cpu", /^Q8_0$/i, 0.1]'],
    ["0.11 in Q4_1", "src/guards/mismatch.ts", '["cpu", /^Q4_1$/i, 0.11]'],
    ["0.14 in Q4_K;", "src/guards/mismatch.ts", '["cpu", /^Q4_K(_[SM])?$/i, 0.14]'],
    ["is recorded, above 0.2 nats)", "src/guards/mismatch.ts", "FAR = 0.2;"],
    ["one above 0.0015 nats", "src/guards/mismatch.ts", "FLOOR = 0.0015;"],
    ["8 times the first three steps' mean", "src/guards/mismatch.ts", "MULTIPLE = 8;"],
    ["After 10 steps in a row without a group", "src/guards/progress.ts", "STEPS_WITHOUT_SPREAD = 10;"],
    ["3 without any reward", "src/guards/progress.ts", "STEPS_UNREWARDED = 3;"],
    ["or 3 whose loss or gradient is not finite", "src/guards/progress.ts", "STEPS_NOT_FINITE = 3;"],
    ["the spread floor of judged rewards (0.05)", "src/judge/ruler.ts", "SAME = 0.05;"],
  ],
  elsewhere: [],
  plain: [
    " 1. **sample**",
    " 2. **play**",
    " 3. **reward**",
    " 4. **advantages**",
    " 5. **update**",
    " 6. **publish**",
    " 7. **commit**",
    " 8. **wake**",
    "GRPO (arXiv 2402.03300)",
    "so the policy ratio is 1 and nothing is clipped",
    "is 1 if the engine played the learner's policy and 0 if it played an earlier one",
    "by the policy after step k − 1 − N",
    "(Rao and Scott 1992)",
    "(1: the learner's, 0: that of checkpoint",
    "was bounded; set to 0;",
  ],
};
