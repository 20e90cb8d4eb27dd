/** Updates of the learner on null cards, compiled for them and launched: sizes of heads, types, checkpointing. */
import { afterEach, describe, expect, it } from "vitest";
import { Machine } from "./support.js";
import { cases, nothingRefused, updates } from "./updates.js";

let machine: Machine;
afterEach(() => machine.remove());

describe.each(cases)("on a %s, heads of %i, %s", (card, head, weights) => {
  it("PEFT's layers are compiled, with activations kept and computed twice, and checkpoints are written", async () => {
    machine = new Machine([card]);
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
  });
});
