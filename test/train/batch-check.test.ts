/** The batch file, read back and compared with the rollouts. */
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packSet } from "../../src/core/engine/allowed.js";
import { type BatchGroup, writeBatch } from "../../src/core/learn/batch.js";
import { checkBatch } from "../../src/guards/batch-check.js";

const path = () => join(mkdtempSync(join(tmpdir(), "hone-second-")), "batch.safetensors");
const record = (sampled: number[]) => ({
  ids: sampled.map((_, i) => i + 3),
  sampled,
  logprobs: sampled.map((flag, i) => -0.1 * flag * (i + 1)),
});
const group: BatchGroup = [
  { tokens: record([0, 0, 1, 1, 0, 1]), advantage: 0.7 },
  { tokens: record([0, 0, 1]), branches: [record([0, 1, 1])], advantage: -0.2 },
  { tokens: record([0, 0, 1, 1]), advantage: -0.5 },
];
const every = { whole: true };

/** Whether one of the seeds, each of which chooses a sequence to compare, sees it. */
async function seen(file: string, groups: readonly BatchGroup[], whole = true): Promise<string> {
  const words: string[] = [];
  for (let seed = 0; seed < 24; seed++) {
    const wrong = await checkBatch(file, groups, { seed, whole });
    if (wrong !== undefined) words.push(wrong);
  }
  return [...new Set(words)].join("\n");
}

it("is what was played, whichever rollout is compared", async () => {
  const file = path();
  await writeBatch(file, [group, group], { temperature: 1 });
  expect(await seen(file, [group, group])).toBe("");
});

it("is seen to lack a rollout, a token, or to have one more", async () => {
  const file = path();
  await writeBatch(file, [group.slice(0, 2)], { temperature: 1 });
  expect(await checkBatch(file, [group], { seed: 1, ...every })).toMatch("3 sequences of 4");
  await writeBatch(file, [[{ tokens: record([0, 1, 1, 1, 0, 1]), advantage: 0.7 }, ...group.slice(1)]], {
    temperature: 1,
  });
  expect(await checkBatch(file, [group], { seed: 1, ...every })).toMatch(
    "9 tokens are marked as sampled, 8 were sampled; the step was not taken",
  );
});

it("is seen to have another mask of as many tokens, another id or advantage, where that rollout is compared", async () => {
  const file = path();
  await writeBatch(file, [[{ tokens: record([0, 1, 1, 0, 0, 1]), advantage: 0.7 }, ...group.slice(1)]], {
    temperature: 1,
  });
  expect(await seen(file, [group])).toContain("token 1 of sequence 0 has another id, mask or log-probability");
  const moved = [0.6, -0.1, -0.5].map((advantage, i) => ({ ...(group[i] as (typeof group)[0]), advantage }));
  await writeBatch(file, [moved], { temperature: 1 });
  expect(await seen(file, [group])).toContain("sequence 0 has another advantage");
});

it("is seen to lack what a grammar let pass", async () => {
  const file = path();
  await writeBatch(file, [group], { temperature: 1 });
  const [first, ...others] = group as [(typeof group)[0], ...(typeof group)[0][]];
  const restricted = { ...first.tokens, allowed: { sets: [packSet(Uint8Array.of(0x20))], at: [2], set: [0] } };
  const changed = [[{ ...first, tokens: restricted }, ...others]];
  expect(await checkBatch(file, changed, { seed: 1, ...every })).toMatch(
    "0 tokens are marked as drawn under a grammar, 1 were drawn so",
  );
});

it("is seen to have advantages that do not sum to 0, unless a rollout was left out", async () => {
  const high = group.map((one) => ({ ...one, advantage: one.advantage + 0.25 }));
  const file = path();
  await writeBatch(file, [high], { temperature: 1 });
  expect(await seen(file, [high])).toContain("the advantages of group 0 sum to 0.7500, not to 0");
  expect(await seen(file, [high], false)).toBe("");
});

it("may lack a rollout in which nothing was sampled, with its advantage", async () => {
  const mute = { tokens: record([0, 0]), advantage: -0.25 };
  const raised = group.map((one, i) => ({ ...one, advantage: one.advantage + (i === 0 ? 0.25 : 0) }));
  const file = path();
  await writeBatch(file, [[...raised, mute]], { temperature: 1 });
  expect(await seen(file, [[...raised, mute]])).toBe("");
});

it("is refused where a tensor is missing", async () => {
  const file = path();
  await writeBatch(file, [group], { temperature: 1 });
  const bytes = readFileSync(file);
  writeFileSync(file, Buffer.from(bytes.toString("latin1").replace('"rollouts"', '"rollouty"'), "latin1"));
  await expect(checkBatch(file, [group], { seed: 1, ...every })).rejects.toThrow("has no rollouts");
});
