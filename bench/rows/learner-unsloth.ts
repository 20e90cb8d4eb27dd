/**
 * One update of 64 rollouts in 8 groups with Unsloth: hone's learner against Unsloth's own GRPO on the same tensors and
 * adapter; and the cost of rows without shared prefixes, which Unsloth needs on a GPU, measured on any device.
 */
import { ensurePython } from "../../src/machine/python/python.js";
import { type Comparison, compareSides, sizesOf } from "../learner-update.js";
import type { Bench, Row } from "../row.js";

const comparisons: readonly Comparison[] = [
  {
    name: "learner/unsloth",
    ours: ["hone-unsloth"],
    theirs: ["unsloth"],
    targets: { speed: "ratio >= 1", memory: "ratio >= 1.43" },
  },
  {
    name: "learner/unsloth shared prefixes",
    ours: ["hone"],
    theirs: ["hone-unsloth", "--apart"],
    targets: { speed: "", memory: "" },
  },
];

export const bench: Bench = {
  name: "learner/unsloth",
  about: "an update of 64 rollouts with Unsloth: speed, memory, gradient, beside its own GRPO; the cost of no sharing",
  models: [],
  async run(context) {
    const python = await ensurePython({ extras: ["dev", "unsloth"], onProgress: context.log });
    const rows: Row[] = [];
    for (const size of sizesOf(context)) {
      for (const sides of comparisons) rows.push(...(await compareSides(context, python, size, sides)));
    }
    return rows;
  },
};
