/** Updates of the learner on null cards, compiled for them and launched: sizes of heads, types, checkpointing. */
import { afterEach, it } from "vitest";
import { Machine } from "./support.js";
import { cases, expectUpdates } from "./updates.js";

let machine: Machine;
afterEach(() => machine.remove());

it.each(cases)(
  "on a %s, heads of %i, %s, PEFT's layers are compiled, with activations kept and computed twice, and checkpoints are written",
  async (...one) => {
    machine = new Machine([one[0]]);
    await expectUpdates(machine, one);
  },
);
