/** Updates by Unsloth on null cards. A file of its own, so that it runs beside those of PEFT. */
import { spawnSync } from "node:child_process";
import { afterEach, describe, expect, it } from "vitest";
import { Machine, nullCardPython } from "./support.js";
import { cases, nothingRefused, updates } from "./updates.js";

let machine: Machine;
afterEach(() => machine.remove());

const asked = spawnSync(nullCardPython(), ["-c", "import importlib.util as u; exit(u.find_spec('unsloth') is None)"]);
const why = asked.status === 0 ? "" : " (skipped: Unsloth is not installed)";

describe.skipIf(why !== "")(`with Unsloth${why}`, () => {
  it.each(cases.filter(([card]) => card === "4090" || (process.env.TEST_FULL && card === "h100")))(
    "on a %s, heads of %i, %s: its kernels are compiled, packed rows are checked, updates are made",
    async (card, head, weights) => {
      machine = new Machine([card]);
      const options = ["--head", String(head), "--weights", weights, "--backend", "unsloth"];
      const [opened, ...made] = await updates(machine, ...options);
      expect(opened).toMatchObject({ opened: "unsloth", precision: weights.toLowerCase(), blocks: false });
      expect(made.map(({ update, applied }) => [update, applied])).toEqual([
        ["kept", true],
        ["twice", true],
      ]);
      nothingRefused(machine);
    },
  );
});
