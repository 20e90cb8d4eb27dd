import { describe, expect, it } from "vitest";
import { wilson } from "../../src/report/interval.js";

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

  it("without trials is everything", () => {
    expect(wilson(0, 0)).toEqual({ low: 0, high: 1 });
  });
});
