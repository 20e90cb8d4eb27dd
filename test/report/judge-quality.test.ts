/** How a judge is measured, on groups small enough to count by hand. */
import { describe, expect, it } from "vitest";
import { judgeQuality, judgeQualityText, type LabelledGroup } from "../../src/judge/quality.js";
import { watchOrder } from "../../src/judge/reward/noise.js";
import type { GroupVerdict } from "../../src/judge/ruler.js";

interface Vote {
  readonly scores: readonly number[];
  readonly order?: readonly number[];
  readonly costs?: readonly (number | null)[];
  readonly cached?: boolean;
}

/** One letter an attempt: as many as `sizes`. Votes give scores by attempt, and the order in which they were shown. */
function group(rewards: readonly number[], votes: readonly Vote[], sizes = rewards.map(() => 1)): LabelledGroup {
  const scored = (scores: readonly number[]) => scores.map((score) => ({ score, explanation: "" }));
  const mean = rewards.map((_, i) => votes.reduce((sum, { scores }) => sum + (scores[i] as number), 0) / votes.length);
  const verdict = {
    comparison: {
      prefix: [],
      attempts: sizes.map((size) => ({ messages: [{ role: "assistant", content: "a".repeat(size) }], turns: 1 })),
      attemptOf: rewards.map((_, i) => i),
    },
    votes: votes.map(({ scores, order, costs, cached = false }) => ({
      order: order ?? rewards.map((_, i) => i),
      scores: scored(scores),
      cached,
      exchanges: (costs ?? []).map((cost) => ({ answer: "", problem: undefined, cost })),
    })),
    scores: votes.length === 0 ? undefined : scored(mean),
  } as unknown as GroupVerdict;
  return { verdict, labels: rewards.map((reward) => ({ reward, success: reward > 0.5 })) };
}

const shares = (groups: readonly LabelledGroup[]) =>
  Object.fromEntries(
    Object.entries(judgeQuality(groups)).map(([name, value]) => [
      name,
      value === null || typeof value === "number" ? value : [value.share, value.n],
    ]),
  );

describe("a judge against the task's own rewards", () => {
  it("is right by its order within groups, whatever its scale; accuracy is about 0.5", () => {
    const harsh = group([0, 1, 1], [{ scores: [0.1, 0.3, 0.9] }]);
    expect(shares([harsh])).toMatchObject({ order: [1, 2], accuracy: [2 / 3, 3], flat: [0, 1], itself: null });
  });

  it("is wrong where it sees no difference between different rewards, and learns nothing there", () => {
    const blind = group([0, 1], [{ scores: [0.5, 0.52] }]);
    expect(shares([blind, group([1, 1], [{ scores: [0, 1] }])])).toMatchObject({ order: [0, 1], flat: [1, 1] });
  });

  it("prefers the first, or the longer, of what is equally good", () => {
    const shown = { scores: [0.9, 0.1], order: [0, 1] };
    expect(shares([group([1, 1], [shown], [9, 2])])).toMatchObject({ first: [1, 1], longer: [1, 1], order: null });
    const turned = { scores: [0.9, 0.1], order: [1, 0] };
    expect(shares([group([1, 1], [turned], [2, 9])])).toMatchObject({ first: [0, 1], longer: [0, 1] });
  });

  it("agrees with itself in so many pairs of two votes", () => {
    const votes = [{ scores: [0, 0.5, 1] }, { scores: [0, 1, 0.5] }];
    expect(shares([group([0, 1, 1], votes)])).toMatchObject({ itself: [2 / 3, 3] });
  });

  it("costs so much a question, corrections included; questions that were remembered tell nothing", () => {
    const asked = (...costs: (number | null)[]) => group([0, 1], [{ scores: [0, 1], costs }]);
    // Of 1, 3 and 5 the mean is 3, the standard deviation 2, and Student's t of 2 degrees of freedom 4.3027.
    const { cost } = judgeQuality([asked(1), asked(1, 2), asked(5), group([0, 1], [{ scores: [0, 1], cached: true }])]);
    expect(cost).toMatchObject({ mean: 3, n: 3 });
    expect(cost?.interval?.high).toBeCloseTo(3 + (4.30265 * 2) / Math.sqrt(3), 3);
    expect(cost?.interval?.low).toBeCloseTo(3 - (4.30265 * 2) / Math.sqrt(3), 3);
    expect(judgeQuality([asked(2)]).cost).toEqual({ mean: 2, interval: null, n: 1 });
    expect(judgeQuality([asked(null)]).cost).toBeNull();
    expect(judgeQualityText(judgeQuality([asked(0.001), asked(0.003)]))).toContain(
      "costs               $0.00200 a question (95 %: $0.00 to $0.0147, n=2)",
    );
  });

  it("leaves out groups without a verdict, and counts identical rollouts once", () => {
    expect(shares([group([0, 1], [])])).toMatchObject({ groups: 0, accuracy: null, order: null });
    const two = group([0, 1], [{ scores: [0, 1] }]);
    const comparison = { ...two.verdict.comparison, attemptOf: [0, 0, 1] };
    const [bad, good] = two.verdict.scores ?? [];
    const verdict = { ...two.verdict, comparison, scores: [bad, bad, good] } as GroupVerdict;
    const [wrong, right] = two.labels as [LabelledGroup["labels"][0], LabelledGroup["labels"][0]];
    expect(shares([{ verdict, labels: [wrong, wrong, right] }])).toMatchObject({ accuracy: [1, 2], order: [1, 1] });
  });

  it("is warned of where its order is not told from chance", () => {
    const better = { scores: [0, 1] };
    const worse = { scores: [1, 0] };
    const groups = (rights: number, n: number) =>
      Array.from({ length: n }, (_, i) => group([0, 1], [i < rights ? better : worse]));
    expect(judgeQualityText(judgeQuality(groups(13, 20)))).toContain("warning: its order");
    const good = judgeQuality(groups(19, 20));
    expect(judgeQualityText(good)).not.toContain("warning");
    // Wilson's interval of 19 of 20.
    expect([good.order?.low, good.order?.high]).toEqual([expect.closeTo(0.764, 3), expect.closeTo(0.991, 3)]);
  });

  it("is warned of in training once, after 20 groups whose own rewards differ, where its order is chance", () => {
    const warned = (rights: number) => {
      const said: string[] = [];
      const watch = watchOrder((text) => said.push(text));
      for (let i = 0; i < 60; i++) {
        const { verdict, labels } = group([0, 1], [{ scores: i % 20 < rights ? [0, 1] : [1, 0] }]);
        watch(
          labels.map((reward) => ({ reward: { ...reward, parts: {} } })),
          verdict,
        );
        const same = group([1, 1], [{ scores: [0, 1] }]);
        watch(
          same.labels.map((reward) => ({ reward: { ...reward, parts: {} } })),
          same.verdict,
        );
      }
      return said;
    };
    expect(warned(19)).toEqual([]);
    expect(warned(12)).toEqual([expect.stringMatching(/^warning: the judge orders 12 of 20 pairs .*may be chance/)]);
  });
});
