/** What hone's own graph asks of a card, by count: the goals of `yarn bench:card` on one small shape. */
import { describe, expect, it } from "vitest";
import { type Case, run } from "../../bench/card/case.js";
import { modelPath } from "../../bench/models.js";

const files = { model: modelPath("qwen3-tiny-f16.gguf"), adapter: modelPath("qwen3-tiny-adapter-1.gguf") };
const played: Omit<Case, "traffic" | "rollouts" | "context"> = {
  shape: "0.5b",
  type: "f16",
  sequences: 8,
  decoder: "own",
};

describe("hone's own graph on a card", () => {
  it("makes passes of agents' traffic from few shapes, which are replayed, and waits and copies once or twice", async () => {
    const row = await run({ ...played, traffic: "agents", rollouts: 16, context: 2048 }, "h100", files);
    const { replayedOfAllPasses, synchronisationsPerPass, copiesPerPass, passesOverIdeal } = row.figures;
    const goals = { replayedOfAllPasses, synchronisationsPerPass, copiesPerPass, passesOverIdeal };
    for (const [name, figure] of Object.entries(goals)) expect(figure, name).toMatchObject({ reached: true });
  });
});
