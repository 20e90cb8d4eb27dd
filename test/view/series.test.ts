/** What the charts show. */
import { describe, expect, it } from "vitest";
import type { Row, RunView } from "../../src/insight/view/wire.js";
import { charts } from "../../web/src/series.js";

describe("the band of the reward chart", () => {
  it("is the 95 % interval of the mean of few groups", () => {
    const rewards = [0.2, 0.4, 0.9];
    const view = { steps: [{ step: 1, metrics: { reward: 0.5, training_reward: null } }], validations: [] };
    const rows = rewards.flatMap((reward, group) =>
      [reward - 0.1, reward + 0.1].map((one) => ({ phase: "train", step: 1, scenario: `s-${group}`, reward: one })),
    );
    const chart = charts.find(({ id }) => id === "reward");
    const [line] = chart?.lines(view as unknown as RunView, rows as unknown as Row[]) ?? [];
    // 4.302653 · s/√3, with s = 0.360555: 1.96 in the place of the quantile gives 0.408.
    expect(line?.points[0]?.value).toBe(0.5);
    expect(line?.points[0]?.high).toBeCloseTo(0.5 + 0.895669, 5);
    expect(line?.points[0]?.low).toBeCloseTo(0.5 - 0.895669, 5);
  });
});
