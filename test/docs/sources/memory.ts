/** The memory plan beside what was measured, as docs/memory.md has them. */
import { type EngineMeasured, type MemoryRow, nameOf, plannedFor } from "../../../bench/planned-memory.js";
import { catalogue, shapeOf } from "../../../src/machine/models/catalogue.js";
import { defaultRun } from "../../../src/machine/plan/by-default.js";
import { learnerMemory } from "../../../src/machine/plan/learner-memory.js";
import { resultsOf } from "../figures.js";
import type { Source } from "./source.js";

const rows: readonly MemoryRow[] = resultsOf("memory-plan-2026-11-26-intel-xeon-processor-2-cores.json").rows;
const labels: Readonly<Record<string, string>> = { "tiny.gguf": "tiny", "qwen2-0.5b-shape-f16.gguf": "0.5B shape" };
const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;

/** Planned by the code of today, measured when the results were written. */
function cellsOf(row: MemoryRow): string[] {
  const { peak } = plannedFor(row);
  const error = 100 * (peak / row.peak - 1);
  return [
    `${labels[row.model]}: ${nameOf(row)}`,
    megabytes(peak),
    megabytes(row.peak),
    `${error < 0 ? "" : "+"}${error.toFixed(1)} %`,
  ];
}

const copied = rows.find(
  (row): row is MemoryRow & EngineMeasured => row.part === "engine" && row.model.startsWith("qwen2-0.5b"),
);
if (!copied || copied.anonymous < copied.shape.bytes) throw new Error("the engine did not copy the weights there");

const counted = resultsOf("card-counts-learner-0.5b-checkpointing-prompt-32400-nvidia-geforce-rtx-4090.json");
const [{ positions }] = counted.updates;
const peak = Math.max(...counted.updates.map(({ peakBytes }: { peakBytes: number }) => peakBytes));
const small = catalogue().get("qwen2.5-0.5b");
if (!small || "path" in small) throw new Error("qwen2.5-0.5b is not in the catalogue");
const usual = defaultRun(shapeOf(small, "bf16"), "cuda", 1);
const CONTEXT = 32_768;
const { weights, adapter, pass } = learnerMemory({
  ...usual,
  context: CONTEXT,
  microBatchTokens: positions,
  gradientCheckpointing: true,
});
const gigabytes = (bytes: number) => (bytes / 1e9).toFixed(1);
const whole = (value: number) => value.toLocaleString("en-US");

export const memory: Source = {
  page: "docs/memory.md",
  tables: [
    {
      header: "on a CPU",
      rows: ["engine", "learner"].flatMap((part) => rows.filter((row) => row.part === part).map(cellsOf)),
    },
  ],
  measured: [
    `Of the 0.5B shape's engine ${megabytes(copied.anonymous)} belong to no file.`,
    `(adapters of rank ${usual.loraRank} on all linear layers, context ${usual.context}, micro-batches of ${usual.microBatchTokens} tokens, ${usual.concurrency} rollouts at once)`,
    `at the end of a context of ${whole(CONTEXT)} tokens (0.5B, bf16, \`\`, a row of ${whole(positions)} positions) took ${gigabytes(peak)} GB on a null card, planned were ${gigabytes(weights + adapter + pass)}.`,
  ],
  declared: [
    ["passes of 512 tokens", "src/engine/contexts.ts", "UBATCH = 512"],
    ["of 192 MiB on CUDA", "src/machine/plan/learner-memory.ts", "cuda: 192 * 2 ** 20"],
    ["and 64 MiB on a CPU", "src/machine/plan/learner-memory.ts", "cpu: 64 * 2 ** 20"],
    ["a context of 0.5 GB", "src/machine/plan/engine-memory.ts", "CUDA_CONTEXT = 0.5e9;"],
  ],
  // Written by `yarn docs`; test/plan/memory.test.ts compares them with the code.
  elsewhere: ["f16", "Q4_K_M"],
  plain: [],
};
