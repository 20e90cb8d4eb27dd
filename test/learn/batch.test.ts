import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packSet } from "../../src/core/engine/allowed.js";
import { type BatchGroup, sharedPrompt, writeBatch } from "../../src/core/learn/batch.js";
import type { TokenRecord } from "../../src/core/rollout/transcript.js";
import { readBatch as read } from "./read-batch.js";

const file = () => join(mkdtempSync(join(tmpdir(), "hone-batch-")), "batch.safetensors");

function record(prompt: number[], own: [id: number, sampled: number][]): TokenRecord {
  return {
    ids: [...prompt, ...own.map(([id]) => id)],
    sampled: [...prompt.map(() => 0), ...own.map(([, sampled]) => sampled)],
    logprobs: [...prompt.map(() => 0), ...own.map(([, sampled]) => (sampled ? -0.5 : 0))],
  };
}

describe("the batch file", () => {
  const a = record(
    [1, 2, 3],
    [
      [7, 1],
      [8, 0],
      [9, 1],
    ],
  );
  const b = record([1, 2, 3], [[7, 1]]);
  const group: BatchGroup = [
    { tokens: a, advantage: 0.5 },
    { tokens: b, advantage: -0.5 },
  ];

  it("holds every trajectory as flat arrays, with the temperature it was sampled at", async () => {
    const path = file();
    const summary = await writeBatch(path, [group], { temperature: 0.8 });
    const { header, tensor, aligned } = read(path);
    expect(aligned).toBe(true);
    expect(header.__metadata__).toEqual({ format: "hone-batch", version: "3", temperature: "0.8" });
    expect(tensor("ids")).toEqual([1, 2, 3, 7, 8, 9, 1, 2, 3, 7]);
    expect(tensor("sampled")).toEqual([0, 0, 0, 1, 0, 1, 0, 0, 0, 1]);
    expect(tensor("logprobs")).toEqual([0, 0, 0, -0.5, 0, -0.5, 0, 0, 0, -0.5]);
    expect(tensor("lengths")).toEqual([6, 4]);
    expect(tensor("prompts")).toEqual([3, 3]);
    expect(tensor("groups")).toEqual([0, 0]);
    expect(tensor("rollouts")).toEqual([0, 1]);
    expect(tensor("advantages")).toEqual([0.5, -0.5]);
    expect(summary).toEqual({
      groups: 1,
      trajectories: 2,
      sequences: 2,
      tokens: 10,
      sampledTokens: 3,
      longest: 6,
    });
  });

  it("holds the sets that tokens were drawn from under a grammar, each once", async () => {
    // Of a vocabulary of 16: {7, 9} and {7}.
    const [two, one] = [packSet(Uint8Array.of(0x80, 0x02)), packSet(Uint8Array.of(0x80, 0x00))];
    const restricted: BatchGroup = [
      { tokens: { ...a, allowed: { sets: [two], at: [3, 5], set: [0, 0] } }, advantage: 0.5 },
      { tokens: { ...b, allowed: { sets: [one, two], at: [3], set: [1] } }, advantage: -0.5 },
    ];
    const path = file();
    await writeBatch(path, [restricted], { temperature: 1 });
    const { header, tensor } = read(path);
    expect(tensor("allowed")).toEqual([-1, -1, -1, 0, -1, 0, -1, -1, -1, 0]);
    expect((header.sets as { shape: number[] }).shape).toEqual([1, 2]);
    expect(tensor("sets")).toEqual([0x80, 0x02]);

    await writeBatch(path, [group], { temperature: 1 });
    expect(Object.keys(read(path).header)).not.toContain("sets");
    const outside = { ...a, allowed: { sets: [one], at: [5], set: [0] } };
    await expect(writeBatch(path, [[{ tokens: outside, advantage: 1 }]], { temperature: 1 })).rejects.toThrow(
      "token 5 of a trajectory was drawn from a set without it",
    );
    const given = { ...a, allowed: { sets: [two], at: [4], set: [0] } };
    await expect(writeBatch(path, [[{ tokens: given, advantage: 1 }]], { temperature: 1 })).rejects.toThrow(
      "token 4 of a trajectory was not sampled, and has an allowed set",
    );
    const smaller = { ...b, allowed: { sets: [packSet(Uint8Array.of(0x80))], at: [3], set: [0] } };
    const mixed: BatchGroup = [...restricted, { tokens: smaller, advantage: 0 }];
    await expect(writeBatch(path, [mixed], { temperature: 1 })).rejects.toThrow("sets of several vocabularies");
  });

  it("leaves out trajectories in which nothing was sampled, and groups of none else", async () => {
    const mute = { tokens: record([1, 2, 3, 4], []), advantage: 1 };
    const path = file();
    const summary = await writeBatch(path, [[mute], [...group, mute]], { temperature: 1 });
    expect(summary).toMatchObject({ groups: 1, trajectories: 2 });
    expect(read(path).tensor("groups")).toEqual([0, 0]);
  });

  it("holds every sequence of a rollout with the rollout's number and advantage", async () => {
    const sub = record([5, 6], [[4, 1]]);
    const mute = record([5, 6, 7], []);
    const path = file();
    const rollouts = [
      { tokens: a, branches: [b, mute], advantage: 0.5 },
      // Its first sequence taught nothing: what was sampled in it belongs to the second.
      { tokens: mute, branches: [sub], advantage: -0.5 },
    ];
    const summary = await writeBatch(path, [rollouts], { temperature: 1 });
    const { tensor } = read(path);
    expect(tensor("lengths")).toEqual([6, 4, 3]);
    expect(tensor("rollouts")).toEqual([0, 0, 1]);
    expect(tensor("groups")).toEqual([0, 0, 0]);
    expect(tensor("prompts")).toEqual([0, 0, 0]);
    expect(tensor("advantages")).toEqual([0.5, 0.5, -0.5]);
    expect(summary).toMatchObject({
      trajectories: 2,
      sequences: 3,
      sampledTokens: 4,
      longest: 6,
    });
  });

  it("has the seed of hone's own draws from the whole distribution, of each such sequence", async () => {
    const draws = { tokens: 1, deviation: 0, variance: 1 };
    const said = { tokens: 4, digest: 0, temperature: 1, foreign: false, seed: 11, drawn: [] };
    const evaluated = [
      { ...said, truncated: false, draws },
      { ...said, truncated: true, draws },
      { ...said, truncated: false },
    ];
    const path = file();
    const rollouts = evaluated.map((one, i) => ({ tokens: { ...b, evaluated: one }, advantage: i - 1, seed: 11 + i }));
    await writeBatch(path, [rollouts], { temperature: 1 });
    expect(read(path).header.__metadata__.seeds).toBe("[11,null,null]");
  });

  it("finds what a group shares: never a sampled token, never past a difference", () => {
    expect(sharedPrompt([a, b])).toBe(3);
    expect(sharedPrompt([a, record([1, 2, 4], [[7, 1]])])).toBe(2);
    expect(sharedPrompt([a, { ...b, sampled: [0, 1, 0, 1] }])).toBe(1);
    expect(sharedPrompt([a])).toBe(3);
    expect(sharedPrompt([])).toBe(0);
  });

  it.each([
    ["lengths that differ", { ...b, logprobs: [0] }, /4 ids, 4 flags, 1 logprobs/],
    ["a first token that nothing predicts", { ...b, sampled: [1, 0, 0, 1] }, /starts with a sampled token/],
    ["a mask that is not of these tokens", { ...b, sampled: [0, 0, 1, 0] }, /token 3 .* was not sampled, and has/],
    ["a log-probability that is none", { ...b, logprobs: [0, 0, 0, Number.NaN] }, /token 3 .* NaN/],
  ])("refuses %s, in each sequence of a rollout", async (_, tokens, message) => {
    for (const rollout of [{ tokens }, { tokens: a, branches: [b, tokens] }]) {
      const writing = writeBatch(file(), [[{ ...rollout, advantage: 1 }]], { temperature: 1 });
      await expect(writing).rejects.toThrow(message);
    }
  });
});
