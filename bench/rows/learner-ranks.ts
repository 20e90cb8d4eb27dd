/** An update by two ranks of one thread each, beside one process with both threads and with one: the ranks' efficiency. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { startLearner } from "../../src/core/learn/learner.js";
import { objectiveOf } from "../../src/core/learn/objectives.js";
import { LINEAR_LAYERS } from "../../src/core/learn/types.js";
import { ggmlBase } from "../../src/engine/missing.js";
import { modelFile, modelShape } from "../../src/engine/models.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { compare, modelName } from "../measure.js";
import { writeRandomBatch } from "../random-batch.js";
import type { Bench } from "../row.js";

const RANKS = 2;
/** Eight groups of eight rollouts. */
const GROUPS = Array.from({ length: 8 }, () => ({ prompt: 300, completions: Array<number>(8).fill(150) }));

export const bench: Bench = {
  name: "learner/ranks",
  about:
    "an update of 64 rollouts by two ranks of the learner with a thread each, over one process with two and with one",
  models: [],
  async run(context) {
    const model = context.model ?? modelFile("tiny");
    const python = await ensurePython({ onProgress: context.log });
    const folder = mkdtempSync(join(tmpdir(), "hone-ranks-bench-"));
    const batch = join(folder, "batch.safetensors");
    await writeRandomBatch(batch, GROUPS, (await modelShape(model)).vocabulary);
    let number = 0;
    /** Milliseconds of a second update: the first one makes buffers. */
    const side = (threads: number, launch?: string) => async () => {
      const learner = await startLearner({
        python,
        base: { gguf: model },
        backend: "peft",
        device: "cpu",
        precision: "f32",
        seed: 1,
        lora: { rank: 8, alpha: 16, targets: LINEAR_LAYERS },
        threads,
        ggml: ggmlBase(),
        logFile: join(folder, "log"),
        ...(launch && { launch }),
      });
      try {
        const step = () => {
          number += 1;
          return learner.step({
            batch,
            into: join(folder, `${number}`),
            objective: objectiveOf("dapo"),
            importance: { mode: "token-truncate", low: 0, high: 2 },
            learningRate: 1e-6,
            klCoefficient: 0,
            maxGradNorm: 1,
            microBatchTokens: 4096,
            gradientCheckpointing: false,
          });
        };
        await step();
        return 1000 * (await step()).seconds.update;
      } finally {
        await learner.close();
      }
    };
    try {
      const about = { model: modelName(model), sequences: null, target: "" };
      const launched = side(RANKS, `torchrun --nproc-per-node ${RANKS}`);
      const rows = [];
      for (const threads of [RANKS, 1]) {
        const row = {
          ...about,
          name: `learner/ranks/threads-${threads}`,
          unit: "ms" as const,
          note: `${RANKS} ranks of one thread, one process of ${threads}`,
        };
        rows.push(await compare(context, row, "less", { ours: launched, theirs: side(threads) }));
      }
      return rows;
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  },
};
