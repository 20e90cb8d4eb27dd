/** One update of 64 rollouts on a CPU: products of f32 as native/learner/products.py has them, against PyTorch's own. */
import { ensurePython } from "../../src/machine/python/python.js";
import { compareSides, sizesOf } from "../learner-update.js";
import type { Bench, Row } from "../row.js";

export const bench: Bench = {
  name: "learner/products",
  about: "an update of 64 rollouts on a CPU by oneDNN's products of f32, over MKL's; the same where those are kept",
  models: [],
  async run(context) {
    const python = await ensurePython({ extras: ["dev"], onProgress: context.log });
    const rows: Row[] = [];
    for (const size of sizesOf(context)) {
      const targets = { speed: "ratio >= 1", memory: "" };
      const sides = { ours: ["hone"], theirs: ["hone", "--mkl"] } as const;
      rows.push(
        ...(await compareSides({ ...context, gpu: false }, python, size, {
          name: "learner/products",
          ...sides,
          targets,
        })),
      );
    }
    return rows;
  },
};
