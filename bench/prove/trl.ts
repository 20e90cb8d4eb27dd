/** Faults of the list in TRL's GRPOTrainer (trl_side.py): what it says of them. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { z } from "zod";
import { packageRoot } from "../../src/core/util/paths.js";
import type { TrlOutcome } from "./table.js";

const schema = z.object({ error: z.string().nullable(), lines: z.array(z.string()) });
const MODEL = join(packageRoot, "models/tiny/tiny.gguf");

/** Of those in faults.ts; TRL has no engine beside the learner, no tools here, and no store. */
export const TRL_FAULTS = [
  "mask shifted by one to the left",
  "stop tokens not trained",
  "sampled at temperature 0.7, trained at 1",
  "rewards given to the next id",
  "a reward is NaN",
  "sign turned",
  "gradient not zeroed",
  "Adam's moments of another run",
  "learning rate ten times",
  "the same seed in a whole group",
] as const;

async function said(python: string, fault: string) {
  const script = join(packageRoot, "bench/prove/trl_side.py");
  const { stdout } = await promisify(execFile)(python, [script, "--gguf", MODEL, "--fault", fault], {
    env: { ...process.env, HF_HUB_OFFLINE: "1", TRL_EXPERIMENTAL_SILENCE: "1", OMP_NUM_THREADS: "1" },
    maxBuffer: 1 << 26,
  });
  return schema.parse(JSON.parse(stdout.trimEnd().split("\n").at(-1) as string));
}

export async function trlOutcomes(python: string, onDone: (outcome: TrlOutcome) => void): Promise<TrlOutcome[]> {
  const without = await said(python, "none");
  if (without.error !== null) throw new Error(`TRL without a fault: ${without.error}`);
  const outcomes: TrlOutcome[] = [];
  for (const name of TRL_FAULTS) {
    const { error, lines } = await said(python, name);
    const more = lines.find((line) => !without.lines.includes(line));
    const outcome = { name, words: error ?? more ?? null };
    onDone(outcome);
    outcomes.push(outcome);
  }
  return outcomes;
}

export async function trlVersion(python: string): Promise<string> {
  const code = "from importlib.metadata import version; print(version('trl'))";
  return (await promisify(execFile)(python, ["-c", code])).stdout.trim();
}
