/** The memory plan beside what was measured, as docs/memory.md has them. */
import { type EngineMeasured, type MemoryRow, plannedFor } from "../../../bench/planned-memory.js";
import { catalogue, shapeOf } from "../../../src/machine/models/catalogue.js";
import { defaultRun } from "../../../src/machine/plan/by-default.js";
import { resultsOf } from "../figures.js";
import type { Source } from "./source.js";

const rows: readonly MemoryRow[] = resultsOf("memory-plan-2026-11-26-intel-xeon-processor-2-cores.json").rows;
const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`;

/** Planned by the code of today, measured when the results were written. */
const errorOf = (row: MemoryRow) => 100 * (plannedFor(row).peak / row.peak - 1);

const copied = rows.find(
  (row): row is MemoryRow & EngineMeasured => row.part === "engine" && row.model.startsWith("qwen2-0.5b"),
);
if (!copied || copied.anonymous < copied.shape.bytes) throw new Error("the engine did not copy the weights there");
const errors = rows.filter((row) => row !== copied).map(errorOf);

const small = catalogue().get("qwen2.5-0.5b");
if (!small || "path" in small) throw new Error("qwen2.5-0.5b is not in the catalogue");
const usual = defaultRun(shapeOf(small, "bf16"), "cuda", 1);

export const memory: Source = {
  page: "docs/memory.md",
  tables: [],
  measured: [
    `the planned peak of [${rows.length} cases] was between ${-Math.min(...errors).toFixed(1)} % below and ${Math.max(...errors).toFixed(1)} % above`,
    `(${megabytes(plannedFor(copied).peak)} planned, ${megabytes(copied.peak)} measured)`,
    `Without these it used ${megabytes(copied.anonymous)}.`,
    `(adapters of rank ${usual.loraRank} on all linear layers, context ${usual.context}, micro-batches of ${usual.microBatchTokens} tokens, ${usual.concurrency} rollouts at once)`,
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
