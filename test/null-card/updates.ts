/** What updates are made and compiled on null cards. */
import { expect } from "vitest";
import { learnerLines, type Machine, type Profile } from "./support.js";

/** Heads of 64 are Qwen2.5-0.5B's, of 128 those of larger models. */
export const cases: readonly (readonly [card: Profile, head: 64 | 128, weights: "F16" | "BF16" | "Q4_K"])[] = [
  ["h100", 128, "BF16"],
  ["4090", 64, "F16"],
  ["3060", 64, "BF16"],
  ["laptop", 128, "F16"],
  ["4090", 128, "Q4_K"],
];
export const nothingRefused = (machine: Machine) => {
  const whats = machine.counted().flatMap((one) => Object.keys(one));
  expect(whats.filter((what) => /^launch refused|^OUT OF MEMORY|^unimplemented/.test(what))).toEqual([]);
};

export async function updates(machine: Machine, ...options: string[]) {
  // Whatever is read from the card is 1, so each trial of a way to compute rows passes.
  const env = { NULLCUDA_NO_DATA: "1" };
  return learnerLines(machine, ["matrix", machine.folder, ...options], env);
}
