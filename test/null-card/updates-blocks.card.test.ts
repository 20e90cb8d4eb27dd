/** Updates of weights that stay blocks on a null card. A file of its own: they are compiled for longer than all others together. */
import { afterEach, it } from "vitest";
import { Machine } from "./support.js";
import { blocks, expectUpdates } from "./updates.js";

let machine: Machine;
afterEach(() => machine.remove());

it("layers over blocks are compiled, with activations kept and computed twice, and checkpoints are written", async () => {
  machine = new Machine([blocks[0]]);
  await expectUpdates(machine, blocks);
});
