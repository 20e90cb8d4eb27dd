/**
 * The quick share of `yarn prove`: the faults in what is written for the learner, put into the module that writes it, and seen by the
 * guards of the same step, without a training.
 */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { describe, expect, it } from "vitest";
import { compiled, patched } from "../../bench/prove/checkout.js";
import type { Fault } from "../../bench/prove/fault.js";
import { faults } from "../../bench/prove/faults.js";
import type { groupAdvantages } from "../../src/core/learn/advantages.js";
import type { BatchGroup, writeBatch } from "../../src/core/learn/batch.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { checkBatch } from "../../src/guards/batch-check.js";

const folder = mkdtempSync(join(tmpdir(), "hone-prove-"));

/** The module with the fault; without one as it is. The modules that it imports are the compiled ones, unchanged. */
async function moduleOf<T>(file: string, fault: Fault | undefined): Promise<T> {
  const source = readFileSync(join(packageRoot, file), "utf8");
  const code = await compiled(fault ? patched(source, fault.patch) : source, file);
  const above = pathToFileURL(join(packageRoot, "dist/src/core/")).href;
  const path = join(folder, `${file.replaceAll("/", "-")}-${fault?.name ?? "none"}.mjs`.replaceAll(" ", "-"));
  writeFileSync(path, code.replaceAll('from "./', `from "${above}learn/`).replaceAll('from "../', `from "${above}`));
  return (await import(/* @vite-ignore */ path)) as T;
}

/** Two turns with a tool's result between them, each ended by a stop token (2). */
const turns = (first: readonly number[], second: readonly number[]) => {
  const ids = [5, 6, ...first, 2, 8, 9, 10, ...second, 2];
  const sampled = [0, 0, ...first.map(() => 1), 1, 0, 0, 0, ...second.map(() => 1), 1];
  return {
    ids,
    sampled,
    logprobs: sampled.map((flag, i) => (flag ? -0.125 * (i + 1) - (first[0] as number) / 64 : 0)),
  };
};
const [last, ...others] = [
  turns([50], [51]),
  turns([20, 21, 22], [23]),
  turns([30], [31, 32]),
  turns([40, 41], [42, 43, 44]),
];
/** Two of them wrote the same. */
const records = [...others, last, last];
const rewards = [1, 0, 0.5, 0.25, 0.25];

/** What the guards said, by the seed that chooses the rollout that is compared; "" where nothing. */
async function guarded(batchFault?: Fault, advantagesFault?: Fault): Promise<string[]> {
  const batch = await moduleOf<{ writeBatch: typeof writeBatch }>("src/core/learn/batch.ts", batchFault);
  const learn = await moduleOf<{ groupAdvantages: typeof groupAdvantages }>(
    "src/core/learn/advantages.ts",
    advantagesFault,
  );
  const { advantages } = learn.groupAdvantages(rewards, { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 });
  const group: BatchGroup = records.map((tokens, i) => ({ tokens, advantage: advantages[i] as number }));
  const file = join(folder, "batch.safetensors");
  const words: string[] = [];
  for (let seed = 0; seed < 8; seed++) {
    const said = await batch
      .writeBatch(file, [group], { temperature: 1 })
      .then(() => checkBatch(file, [group], { seed, whole: true }))
      .catch((error: Error) => error.message);
    words.push(said ?? "");
  }
  return words;
}

const of = (file: string) => faults.filter(({ patch }) => patch.file === file);
const named = (name: string) => faults.find((fault) => fault.name === name) as Fault;

describe("within the step of the fault", () => {
  it("nothing is said where there is none", async () => {
    expect(new Set(await guarded())).toEqual(new Set([""]));
  });

  // The first rollout has its own log-probabilities there.
  const everywhere = of("src/core/learn/batch.ts").filter(
    ({ name }) => name !== "those of another rollout of the group",
  );
  it.each(everywhere)("$family: $name is seen, whichever rollout is compared", async (fault) => {
    for (const words of await guarded(fault)) expect(words).toMatch(/is not what was played/);
  });

  it("log-probabilities of another rollout are seen where that rollout is compared", async () => {
    expect((await guarded(named("those of another rollout of the group"))).join()).toMatch(
      /another id, mask or log-prob/,
    );
  });

  it("advantages against the mean of another group are seen in all, those by another deviation are not", async () => {
    const words = await guarded(undefined, named("mean of another group"));
    for (const one of words) expect(one).toMatch(/advantages of group 0 sum to -/);
    expect(new Set(await guarded(undefined, named("population deviation for the sample's")))).toEqual(new Set([""]));
  });
});
