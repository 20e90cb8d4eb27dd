/** What updates are made and compiled on null cards. */
import { expect } from "vitest";
import { learnerLines, type Machine, type Profile } from "./support.js";

type Case = readonly [card: Profile, head: 64 | 128, weights: "F16" | "BF16" | "Q4_K"];
const more: readonly Case[] = [
  ["h100", 128, "BF16"],
  ["4090", 64, "F16"],
  ["3060", 64, "BF16"],
  ["laptop", 128, "F16"],
];
/** Heads of 64 are Qwen2.5-0.5B's, of 128 those of larger models. Other pairs of the same, with `--full`. */
export const cases: readonly Case[] = [["4090", 64, "BF16"], ...(process.env.TEST_FULL ? more : [])];
export const blocks: Case = ["4090", 128, "Q4_K"];

export const nothingRefused = (machine: Machine) => {
  const whats = machine.counted().flatMap((one) => Object.keys(one));
  expect(whats.filter((what) => /^launch refused|^OUT OF MEMORY|^unimplemented/.test(what))).toEqual([]);
};

export async function updates(machine: Machine, ...options: string[]) {
  // Whatever is read from the card is 1, so each trial of a way to compute rows passes.
  const env = { NULLCUDA_NO_DATA: "1" };
  return learnerLines(machine, ["matrix", machine.folder, ...options], env);
}

/** Of PEFT's layers: compiled, with activations kept and computed twice, and checkpoints written. */
export async function expectUpdates(machine: Machine, [, head, weights]: Case): Promise<void> {
  const [opened, ...made] = await updates(machine, "--head", String(head), "--weights", weights);
  const precision = weights === "F16" ? "f16" : "bf16";
  expect(opened).toMatchObject({ opened: "peft", precision, blocks: weights === "Q4_K" });
  const written = ["adapter", "adapter.gguf", "optimizer.pt", "probe.json"];
  const one = { way: "fused layers", applied: true, notes: [], written };
  expect(made).toEqual([
    { update: "kept", ...one },
    { update: "twice", ...one },
  ]);
  expect(machine.count("launch direct")).toBeGreaterThan(1000);
  nothingRefused(machine);
}
