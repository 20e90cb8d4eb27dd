/** Counts of an update on a card that computes nothing: bench/learner/card_counts.py, which writes the file. */
import { join } from "node:path";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { Machine, nullCardPython } from "../../test/null-card/support.js";
import type { Profile } from "./estimate.js";

/** A group in a context of 32,768 tokens. */
const LONG = ["--groups", "1", "--prompt", "32000", "32400", "--tokens", "65536", "--checkpointing", "--updates", "3"];

/** A small step, by a process that compiles, and by one that loads what the first has kept. */
const SMALL = ["--groups", "2", "--size", "4", "--updates", "3"];
const LATER = [...SMALL, "--later"];

/** Frozen weights in 4 bits: of a file, Unsloth's, and bitsandbytes' in TRL. */
const FOUR_BITS = [
  ["--weights", "Q4_0"],
  ["--weights", "nf4", "--side", "hone-unsloth"],
  ["--weights", "nf4", "--side", "trl"],
];

/**
 * @param out folder of the files
 * @throws HoneError when some cannot be counted or miss a goal, after all of them
 */
export async function countLearner(card: Profile, out: string): Promise<void> {
  const machine = new Machine([card]);
  try {
    const program = join(packageRoot, "bench/learner/card_counts.py");
    const empty = { TORCHINDUCTOR_CACHE_DIR: join(machine.folder, "kernels") };
    const all = [[], SMALL, LATER, LONG, ...FOUR_BITS];
    let failed = 0;
    for (const more of all) {
      console.log(`an update of the learner: ${more.join(" ") || "as usual"}`);
      const command = [program, "--shape", "0.5b", "--out", out, ...more];
      const env = more === SMALL || more === LATER ? empty : {};
      const { code, stdout, stderr } = await machine.run(nullCardPython(), command, env);
      process.stdout.write(stdout);
      if (code === 0) continue;
      failed++;
      console.error(`failed: ${stderr.trim().split("\n").at(-1) || `it ended with code ${code}`}`);
    }
    if (failed > 0) throw new HoneError(`${failed} of ${all.length} counts of the learner failed`);
  } finally {
    machine.remove();
  }
}
