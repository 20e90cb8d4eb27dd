/**
 * Decoding beside the limit of memory bandwidth: every pass reads all weights once, so that passes a second times the weights'
 * size is what decoding read, against what PyTorch reads of main memory with the same threads (the sum of 1 GB of floats, the
 * best of five). With few sequences reading is the limit; with more of them, arithmetic.
 */
import { spawnSync } from "node:child_process";
import { HoneError } from "../../src/core/util/errors.js";
import { usableCores } from "../../src/engine/threads.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { compare, decodeLength, decodeSpeed, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, Row } from "../row.js";

const name = "decode/bandwidth";

const READ = `import sys, time, torch
torch.set_num_threads(int(sys.argv[1]))
floats, best = torch.ones(250_000_000), 1e9
for _ in range(5):
    start = time.perf_counter()
    floats.sum()
    best = min(best, time.perf_counter() - start)
print(floats.nbytes / best / 1e9)`;

/** GB a second. */
function readSpeed(python: string, threads: number): number {
  const { status, stdout, stderr } = spawnSync(python, ["-c", READ, `${threads}`], { encoding: "utf8" });
  if (status !== 0) throw new HoneError(`memory could not be read: ${stderr.trim().split("\n").at(-1)}`);
  return Number(stdout);
}

export const bench: Bench = {
  name,
  about: "bytes of weights that decoding reads a second, over what the CPU reads of main memory, 1, 4 and 16 sequences",
  models: ["0.5b"],
  async run(context) {
    const python = await ensurePython({ anyBuild: true, onProgress: context.log });
    const model = context.model ?? modelPath("qwen2-0.5b-shape-f16.gguf");
    const threads = context.threads ?? usableCores();
    const rows: Row[] = [];
    for (const sequences of context.sequences ?? [1, 4, 16]) {
      const engine = await context.load({ model, sequences, contextPerSequence: 512 });
      if (engine.info.gpu !== false)
        throw new HoneError("the bandwidth is measured for the CPU alone: give --gpu none");
      try {
        const { weights } = engine.memory();
        const { prompt, tokens } = decodeLength(engine);
        const settings = { sequences, prompt: Math.min(prompt, 64), tokens };
        const about = { name, model: modelName(model), sequences, unit: "GB/s", target: "" } as const;
        await decodeSpeed(engine, { ...settings, tokens: 4 });
        const note = `weights ${(weights / 1e6).toFixed(0)} MB, read once a pass; ${threads} threads`;
        const sides = {
          ours: async () => ((await decodeSpeed(engine, settings)) / sequences) * (weights / 1e9),
          theirs: async () => readSpeed(python, threads),
        };
        rows.push({ ...(await compare(context, about, "more", sides)), note });
      } finally {
        await engine.close();
      }
    }
    return rows;
  },
};
