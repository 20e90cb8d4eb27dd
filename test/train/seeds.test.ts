/** Seeds of rollouts: those of their place, and of no other. */
import { expect, it } from "vitest";
import { deriveSeed } from "../../src/core/util/random.js";
import { checkSeeds } from "../../src/guards/draws.js";
import { trajectoryOf } from "./support/fakes.js";

const played = (step: number, run = "3/train") =>
  [0, 1].map((index) => {
    const { scenario } = trajectoryOf({ index });
    return trajectoryOf({ index, seed: deriveSeed(run, step, scenario.id, index) });
  });

it("takes a group with the seeds of its step", () => {
  expect(checkSeeds(played(4), "3/train", 4)).toBeUndefined();
});

it.each([
  ["another step", played(3)],
  ["validations", played(4, "3/validation")],
  [
    "another member of the group",
    played(4)
      .reverse()
      .map((one, index) => ({ ...one, index })),
  ],
])("refuses those of %s", (_, group) => {
  expect(checkSeeds(group, "3/train", 4)).toMatch(/was drawn with the seed \d+, which is not that of its scenario/);
});
