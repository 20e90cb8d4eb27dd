/** One update of 64 rollouts by the type of the frozen weights: quantised blocks and bitsandbytes' 4 bits, over f16. */

import { usableCores } from "../../src/engine/threads.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { sizesOf, update } from "../learner-update.js";
import { compare, median } from "../measure.js";
import type { Bench, Row } from "../row.js";

/** What transformers and PEFT users have: bitsandbytes' NF4 (embeddings and output layer are not quantised). */
const types = ["Q4_0", "Q8_0", "nf4"] as const;

export const bench: Bench = {
  name: "learner/weights",
  about: "an update of 64 rollouts by the type of the frozen weights, bitsandbytes' 4 bits among them, over f16",
  models: [],
  async run(context) {
    const python = await ensurePython({ extras: ["dev", "unsloth"], onProgress: context.log });
    const threads = context.threads ?? usableCores();
    const rows: Row[] = [];
    for (const size of sizesOf(context)) {
      for (const type of types) {
        const peaks: Record<"ours" | "theirs", number[]> = { ours: [], theirs: [] };
        const side = (which: "ours" | "theirs", weights: string) => async () => {
          const device = context.gpu === false ? "cpu" : "auto";
          const report = await update(python, ["hone", "--weights", weights, "--device", device], size, threads);
          peaks[which].push((report.loaded + report.aboveModel) / 1e6);
          return 1000 * report.seconds;
        };
        const about = { model: `qwen2 ${size.shape} shape, LoRA rank 8 on all linear layers`, sequences: null };
        const name = `learner/weights ${type}`;
        const times = { ...about, name: `${name} time`, unit: "ms" as const, target: "" };
        const note = `an update with ${type} weights, with F16; ${threads} threads`;
        rows.push(
          await compare(context, { ...times, note }, "less", {
            ours: side("ours", type),
            theirs: side("theirs", "F16"),
          }),
        );
        const [ours, theirs] = [median(peaks.ours), median(peaks.theirs)];
        rows.push({
          ...about,
          name: `${name} memory`,
          unit: "MB",
          ours,
          theirs,
          ratio: theirs / ours,
          target: "",
          note: "peak of the learner, the model included",
          rounds: peaks.ours.map((one, i) => ({ ours: one, theirs: peaks.theirs[i] ?? 0 })),
        });
      }
    }
    return rows;
  },
};
