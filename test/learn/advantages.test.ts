import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { groupAdvantages } from "../../src/core/learn/advantages.js";

const checkable = { estimator: "grpo", stdFloor: 0.1, spreadFloor: 0 } as const;
const judged = { estimator: "grpo", stdFloor: 0, spreadFloor: 0.05 } as const;

describe("group advantages", () => {
  it("are the distance to the mean over standard deviation plus floor", () => {
    const { advantages, hasSpread } = groupAdvantages([1, 0, 0, 0], checkable);
    expect(hasSpread).toBe(true);
    expect(advantages[0]).toBeCloseTo(0.75 / 0.6, 12);
    expect(advantages[1]).toBeCloseTo(-0.25 / 0.6, 12);
  });

  it("are not divided without scaling, as in Dr. GRPO", () => {
    expect(groupAdvantages([3, 1], { ...checkable, estimator: "dr-grpo" }).advantages).toEqual([1, -1]);
  });

  it("are the distance to the mean of the others with leave-one-out, as in RLOO", () => {
    const { advantages } = groupAdvantages([1, 0, 0, 3], { ...checkable, estimator: "rloo" });
    for (const [i, wanted] of [0, -4 / 3, -4 / 3, 3 - 1 / 3].entries()) expect(advantages[i]).toBeCloseTo(wanted, 12);
    fc.assert(
      fc.property(fc.array(fc.integer({ min: -9, max: 9 }), { minLength: 2, maxLength: 9 }), (rewards) => {
        const { advantages, hasSpread } = groupAdvantages(rewards, { ...checkable, estimator: "rloo" });
        const sum = rewards.reduce((a, b) => a + b, 0);
        for (const [i, reward] of rewards.entries()) {
          const others = (sum - reward) / (rewards.length - 1);
          expect(advantages[i]).toBeCloseTo(hasSpread ? reward - others : 0, 9);
        }
      }),
    );
  });

  it("are 0 where nobody did better than anybody", () => {
    for (const rewards of [[], [0.7], [0.3, 0.3, 0.3], [0.1 + 0.2, 0.3]]) {
      const { advantages, hasSpread } = groupAdvantages(rewards, checkable);
      expect(hasSpread).toBe(false);
      expect(advantages).toEqual(rewards.map(() => 0));
    }
  });

  it("leave out a judge's noise, not its verdicts", () => {
    expect(groupAdvantages([0.8, 0.84], judged).hasSpread).toBe(false);
    expect(groupAdvantages([0.8, 0.86], judged).hasSpread).toBe(true);
    expect(groupAdvantages([0.8, 0.84], checkable).hasSpread).toBe(true);
  });

  it("sum to 0, keep the order of rewards, and do not depend on a constant added to them", () => {
    const reward = fc.double({ min: -10, max: 10, noNaN: true });
    fc.assert(
      fc.property(fc.array(reward, { minLength: 2, maxLength: 16 }), reward, (rewards, shift) => {
        const { advantages, hasSpread } = groupAdvantages(rewards, checkable);
        if (!hasSpread) return;
        expect(advantages.reduce((sum, value) => sum + value, 0)).toBeCloseTo(0, 6);
        for (const [i, a] of rewards.entries()) {
          for (const [j, b] of rewards.entries()) {
            if (a > b + 1e-9) expect(advantages[i]).toBeGreaterThan(advantages[j] as number);
          }
        }
        const shifted = groupAdvantages(
          rewards.map((value) => value + shift),
          checkable,
        );
        for (const [i, value] of shifted.advantages.entries()) expect(value).toBeCloseTo(advantages[i] as number, 4);
      }),
    );
  });

  it.each([Number.NaN, Number.POSITIVE_INFINITY])("refuse the reward %d", (wrong) => {
    expect(() => groupAdvantages([1, wrong], checkable)).toThrow(`a reward is ${wrong}, not a finite number`);
  });
});
