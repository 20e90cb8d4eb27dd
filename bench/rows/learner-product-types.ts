/** Products of a frozen matrix on a CPU by the type of the factors: bf16, which the learner takes where it may, f16 and 8 bits. */
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { z } from "zod";
import { learnerEnvironment } from "../../src/core/learn/environment.js";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { ggmlBase } from "../../src/engine/missing.js";
import { usableCores } from "../../src/engine/threads.js";
import { ensurePython } from "../../src/machine/python/python.js";
import { median } from "../measure.js";
import type { Bench, Row } from "../row.js";

const name = "learner/product-types";
const measured = z.object({ difference: z.number(), milliseconds: z.array(z.number()).min(1) });
const reportSchema = z.object({ f32: measured, bf16: measured, f16: measured, int8: measured });

export const bench: Bench = {
  name,
  about: "products of a frozen matrix of the 0.5B shape on a CPU: bf16, f16 and 8 bits over f32, and how they differ",
  models: [],
  async run(context) {
    const python = await ensurePython({ anyBuild: true, onProgress: context.log });
    const threads = context.threads ?? usableCores();
    const args = ["--rounds", `${context.rounds}`, "--threads", `${threads}`];
    const { status, stdout, stderr } = spawnSync(
      python,
      [join(packageRoot, "bench/learner/product_types.py"), ...args],
      {
        encoding: "utf8",
        env: { ...process.env, ...learnerEnvironment(threads, ggmlBase()) },
      },
    );
    if (status !== 0) throw new HoneError(`products were not measured: ${stderr.trim().split("\n").at(-1)}`);
    const { f32, ...others } = reportSchema.parse(JSON.parse(stdout));
    return Object.entries(others).map(([type, { difference, milliseconds }]): Row => {
      const rounds = milliseconds.map((ours, i) => ({ ours, theirs: f32.milliseconds[i] as number }));
      return {
        name: `${name} ${type}`,
        model: "896 x 4,864, 1,536 tokens",
        sequences: null,
        unit: "ms",
        target: "",
        ours: median(milliseconds),
        theirs: median(f32.milliseconds),
        ratio: median(rounds.map(({ ours, theirs }) => theirs / ours)),
        note: `differs from f32 by ${difference.toPrecision(2)} of its size; ${threads} threads`,
        rounds,
      };
    });
  },
};
