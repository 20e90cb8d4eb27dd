import { describe, expect, it } from "vitest";
import { type Cluster, clustered, clustersOf, meanInterval, studentT, wilson } from "../../src/core/run/interval.js";
import { Random } from "../../src/core/util/random.js";

describe("the 95 % interval of a share", () => {
  // As R's prop.test(x, n, correct = FALSE) gives it; the last is the example of Newcombe (1998), table I, method 3.
  it.each([
    [10, 10, 0.72246, 1],
    [0, 10, 0, 0.27754],
    [5, 10, 0.23659, 0.76341],
    [81, 263, 0.25525, 0.36621],
  ])("of %i of %i is the score interval", (successes, n, low, high) => {
    const interval = wilson(successes, n);
    expect(interval.low).toBeCloseTo(low, 4);
    expect(interval.high).toBeCloseTo(high, 4);
  });

  it("ends at 0 without a success and at 1 without a failure, whatever n rounds to", () => {
    for (let n = 1; n <= 100; n++) expect([wilson(0, n).low, wilson(n, n).high]).toEqual([0, 1]);
  });

  it("without trials is everything", () => {
    expect(wilson(0, 0)).toEqual({ low: 0, high: 1 });
  });
});

/** "8/8 0/8": successes of rollouts, by question. */
const clustersIn = (text: string): Cluster[] =>
  text.split(" ").map((one) => {
    const [successes, n] = one.split("/").map(Number) as [number, number];
    return { successes, n };
  });

describe("the 95 % interval of a share of rollouts of several questions", () => {
  // Design effect from statsmodels 0.14's OLS(...).fit(cov_type="cluster"), Wilson's from its proportion_confint.
  it.each([
    ["rollouts of one question alike", "8/8 0/8 8/8 2/8 0/8 7/8 1/8 0/8", 0.134937, 0.750076],
    ["groups of unequal size, less alike than chance: as independent ones", "3/8 2/7 4/8 1/3", 0.157351, 0.676573],
  ])("has the design effect of %s", (_, text, low, high) => {
    const interval = clustered(clustersIn(text));
    expect(interval.low).toBeCloseTo(low, 5);
    expect(interval.high).toBeCloseTo(high, 5);
  });

  it("is Wilson's where each question was played once, or all rollouts came to the same", () => {
    expect(clustered(clustersIn("1/1 0/1 1/1 0/1 0/0"))).toEqual(wilson(2, 4));
    expect(clustered(clustersIn("0/8 0/8 0/8 0/8"))).toEqual(wilson(0, 4));
    expect(clustered(clustersIn("8/8 8/8 8/8 8/8"))).toEqual(wilson(4, 4));
  });

  it("is everything without rollouts, or of a single question", () => {
    for (const clusters of [[], clustersIn("3/8")]) expect(clustered(clusters)).toEqual({ low: 0, high: 1 });
  });

  it("holds the true share in about 95 of 100 steps, where that of independent rollouts holds it in 60", () => {
    const random = new Random("coverage");
    const steps = 2000;
    const held = { clustered: 0, wilson: 0 };
    for (let step = 0; step < steps; step++) {
      // Intraclass correlation 0.5: of every second question all rollouts are alike.
      const clusters = Array.from({ length: 8 }, () => {
        const alike = random.chance(0.5);
        const first = random.chance(0.3);
        const successes = Array.from({ length: 8 }, () => (alike ? first : random.chance(0.3))).filter(Boolean).length;
        return { successes, n: 8 };
      });
      const holds = ({ low, high }: { low: number; high: number }) => (low <= 0.3 && 0.3 <= high ? 1 : 0);
      held.clustered += holds(clustered(clusters));
      held.wilson += holds(
        wilson(
          clusters.reduce((sum, { successes }) => sum + successes, 0),
          64,
        ),
      );
    }
    expect(held.clustered / steps).toBeGreaterThan(0.93);
    expect(held.wilson / steps).toBeLessThan(0.7);
  });
});

it("rollouts are gathered by question in the order of the first", () => {
  const rollouts = [
    ["b", true],
    ["a", false],
    ["b", false],
  ] as const;
  const clusters = clustersOf(
    rollouts,
    ([question]) => question,
    ([, solved]) => solved,
  );
  expect(clusters).toEqual([
    { n: 2, successes: 1 },
    { n: 1, successes: 0 },
  ]);
});

it.each([
  // NIST/SEMATECH e-Handbook of Statistical Methods, table 1.3.6.7.2
  [1, 12.706],
  [2, 4.303],
  [3, 3.182],
  [4, 2.776],
  [7, 2.365],
  [10, 2.228],
  [15, 2.131],
  [30, 2.042],
  [63, 1.998],
  [100, 1.984],
])("takes Student's t with %i degrees of freedom at 97.5 %: %f", (n, quantile) => {
  expect(studentT(n)).toBeCloseTo(quantile, 3);
});

it("of a mean is Student's, which few values have", () => {
  // R's t.test(1:5).
  const { low, high } = meanInterval([1, 2, 3, 4, 5]) ?? { low: 0, high: 0 };
  expect([low, high]).toEqual([expect.closeTo(1.036757, 6), expect.closeTo(4.963243, 6)]);
  expect(meanInterval([1])).toBeNull();
});
