/** One update of 64 rollouts in 8 groups: hone's learner against TRL's GRPOTrainer on the same tensors and adapter. */
import { ensurePython } from "../../src/learn/index.js";
import { compareSides, sizes } from "../learner-update.js";
import type { Bench, Row } from "../row.js";

export const bench: Bench = {
  name: "learner/trl",
  about: "an update of 64 rollouts: tokens per second, memory above the model, gradient, beside TRL's GRPOTrainer",
  models: [],
  async run(context) {
    const python = await ensurePython({ development: true, onProgress: context.say });
    const rows: Row[] = [];
    const targets = { speed: "ratio >= 1.5", memory: "ratio >= 1.43" };
    for (const size of sizes) {
      const sides = { name: "learner/trl", ours: ["hone"], theirs: ["trl"], targets } as const;
      rows.push(...(await compareSides(context, python, size, sides)));
    }
    return rows;
  },
};
