/** What hone's own graph asks of a card, by count: goals of `yarn bench:card` on one small shape. */
import { describe, expect, it } from "vitest";
import { type Case, run } from "../../bench/card/case.js";
import { modelPath } from "../../bench/models.js";

const files = { model: modelPath("qwen3-tiny-f16.gguf"), adapter: modelPath("qwen3-tiny-adapter-1.gguf") };
const LAYERS = 4;
const count = (played: Pick<Case, "traffic" | "rollouts" | "context">, sequences: Case["sequences"] = 8) =>
  run({ shape: "0.5b", type: "f16", sequences, decoder: "own", ...played }, "h100", files);
const decoded = async (sequences: 1 | 8) => {
  const { plain, adapter } = await count({ traffic: "decode", rollouts: sequences, context: 1024 }, sequences);
  if (!plain) throw new Error("decoding was not counted without an adapter");
  expect(adapter.launches).toBe(0);
  return (adapter.kernels / adapter.passes - plain.kernels / plain.passes) / LAYERS;
};

describe("hone's own graph on a card", () => {
  it("replays the passes of agents' traffic, and waits and copies at most twice and three times in each", async () => {
    const { figures } = await count({ traffic: "agents", rollouts: 16, context: 2048 });
    for (const name of ["replayedOfAllPasses", "synchronisationsPerPass", "copiesPerPass"]) {
      expect(figures[name], name).toMatchObject({ reached: true });
    }
  });

  it("has for an adapter a product more for each input of a layer, and two sums", async () => {
    expect(await decoded(8)).toBeLessThanOrEqual(4 + 2);
  });

  // CUDA makes one kernel of a product with a vector and what is added to it; of gate, up and what follows them too.
  it("has for an adapter three products more for each layer, and no sums, where one sequence plays", async () => {
    expect(await decoded(1)).toBe(3);
  });
});
