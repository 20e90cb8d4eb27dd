/** Updates of the learner on null cards, compiled for them and launched: sizes of heads, types, checkpointing, both backends. */
import { spawnSync } from "node:child_process";
import { afterEach, describe, expect, it } from "vitest";
import { learnerLines, Machine, nullCardPython, type Profile } from "./support.js";

let machine: Machine;
afterEach(() => machine.remove());

/** Heads of 64 are Qwen2.5-0.5B's, of 128 those of larger models. */
const cases: readonly (readonly [card: Profile, head: 64 | 128, weights: "F16" | "BF16" | "Q4_K"])[] = [
  ["h100", 128, "BF16"],
  ["4090", 64, "F16"],
  ["3060", 64, "BF16"],
  ["laptop", 128, "F16"],
  ["4090", 128, "Q4_K"],
];
const nothingRefused = () => {
  const whats = machine.counted().flatMap((one) => Object.keys(one));
  expect(whats.filter((what) => /^launch refused|^OUT OF MEMORY|^unimplemented/.test(what))).toEqual([]);
};

async function updates(...options: string[]) {
  // Whatever is read from the card is 1, so each trial of a way to compute rows passes.
  const env = { NULLCUDA_NO_DATA: "1" };
  return learnerLines(machine, ["matrix", machine.folder, ...options], env);
}

describe.each(cases)("on a %s, heads of %i, %s", (card, head, weights) => {
  it("PEFT's layers are compiled, with activations kept and computed twice, and checkpoints are written", async () => {
    machine = new Machine([card]);
    const [opened, ...made] = await updates("--head", String(head), "--weights", weights);
    const precision = weights === "F16" ? "f16" : "bf16";
    expect(opened).toMatchObject({ opened: "peft", precision, blocks: weights === "Q4_K" });
    const written = ["adapter", "adapter.gguf", "optimizer.pt", "probe.json"];
    const one = { way: "fused layers", applied: true, notes: [], written };
    expect(made).toEqual([
      { update: "kept", ...one },
      { update: "twice", ...one },
    ]);
    expect(machine.count("launch direct")).toBeGreaterThan(1000);
    nothingRefused();
  });
});

const asked = spawnSync(nullCardPython(), ["-c", "import importlib.util as u; exit(u.find_spec('unsloth') is None)"]);
const why = asked.status === 0 ? "" : " (skipped: Unsloth is not installed)";

describe.skipIf(why !== "")(`with Unsloth${why}`, () => {
  it.each(cases.filter(([card, , weights]) => (card === "4090" || card === "h100") && weights !== "Q4_K"))(
    "on a %s, heads of %i, %s: its kernels are compiled, packed rows are checked, updates are made",
    async (card, head, weights) => {
      machine = new Machine([card]);
      const options = ["--head", String(head), "--weights", weights, "--backend", "unsloth"];
      const [opened, ...made] = await updates(...options);
      expect(opened).toMatchObject({ opened: "unsloth", precision: weights.toLowerCase(), blocks: false });
      expect(made.map(({ update, applied }) => [update, applied])).toEqual([
        ["kept", true],
        ["twice", true],
      ]);
      nothingRefused();
    },
  );
});
