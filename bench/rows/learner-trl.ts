/**
 * One update of 64 rollouts in 8 groups: hone's learner against TRL's GRPOTrainer on the same tensors and adapter. The
 * rollouts are random tokens after a common prompt, or those of the first step of `yarn train --model tiny`, which
 * share longer prefixes.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ensurePython } from "../../src/machine/python/python.js";
import { hone } from "../cli.js";
import { compareSides, sizesOf } from "../learner-update.js";
import type { Bench, BenchContext, Row } from "../row.js";

export const bench: Bench = {
  name: "learner/trl",
  about: "an update of 64 rollouts: tokens per second and memory above the model, over TRL's GRPOTrainer",
  models: [],
  async run(context) {
    const python = await ensurePython({ extras: ["dev"], onProgress: context.log });
    const rows: Row[] = [];
    const home = mkdtempSync(join(tmpdir(), "hone-bench-"));
    const sides = { ours: ["hone"], theirs: ["trl"] } as const;
    const memory = "ratio >= 1.43";
    try {
      if ((context.shape ?? "tiny") === "tiny") {
        const played = { shape: "tiny", rollouts: await playedBatch(context, python, home), repeats: 3 } as const;
        const targets = { speed: "ratio >= 5", memory };
        rows.push(...(await compareSides(context, python, played, { ...sides, name: "learner/trl/played", targets })));
      }
      for (const size of sizesOf(context)) {
        const targets = { speed: "ratio >= 1.5", memory };
        rows.push(...(await compareSides(context, python, size, { ...sides, name: "learner/trl", targets })));
      }
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
    return rows;
  },
};

/** The batch of the tiny model's first step, with default settings. */
async function playedBatch(context: BenchContext, python: string, home: string): Promise<string> {
  const places = ["--home", home, "--db", join(home, "mail.db")];
  await hone(context, "build-db", ...places);
  const run = ["--run", "bench", "--steps", "1", "--validate-n", "1", "--gpu", "off", "--python", python];
  await hone(context, "train", "--model", "tiny", ...places, ...run);
  return join(home, "email/models/bench/batch.safetensors");
}
