import { describe, expect, it } from "vitest";
import { deriveSeed, Random } from "../../src/core/util/random.js";

const draw = (random: Random) => Array.from({ length: 20 }, () => random.uint32());

describe("Random", () => {
  it("repeats itself for the same seed and differs for another", () => {
    expect(draw(new Random("run", 3))).toEqual(draw(new Random("run", 3)));
    expect(draw(new Random("run", 3))).not.toEqual(draw(new Random("run", 4)));
  });

  it("spreads evenly over a range", () => {
    const random = new Random("even");
    const counts = new Array<number>(10).fill(0);
    for (let i = 0; i < 100_000; i++) {
      const value = random.integer(0, 9);
      counts[value] = (counts[value] ?? 0) + 1;
    }
    // Chi-square with 9 degrees of freedom: above 27.9 happens once in a thousand.
    expect(counts.reduce((sum, n) => sum + (n - 10_000) ** 2 / 10_000, 0)).toBeLessThan(27.9);
  });

  it("picks by weight", () => {
    const random = new Random("weights");
    const hits = Array.from({ length: 10_000 }, () =>
      random.weighted([
        ["a", 3],
        ["b", 1],
        ["never", 0],
      ] as const),
    );
    expect(hits.filter((hit) => hit === "a").length).toBeGreaterThan(7_300);
    expect(hits.filter((hit) => hit === "a").length).toBeLessThan(7_700);
    expect(hits).not.toContain("never");
  });

  it("shuffles without losing anything", () => {
    const shuffled = new Random(1).shuffle([1, 2, 3, 4, 5, 6, 7, 8]);
    expect(shuffled).not.toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    expect([...shuffled].sort()).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    const orders = Array.from({ length: 100 }, (_, seed) => new Random(seed).shuffle(["a", "b", "c"]).join(""));
    expect(new Set(orders).size).toBe(6);
  });
});

describe("deriveSeed", () => {
  it("is a safe integer that depends on each part and where one part ends", () => {
    expect(Number.isSafeInteger(deriveSeed("run", 1, "s", 0))).toBe(true);
    expect(new Set([deriveSeed("ab", "c"), deriveSeed("a", "bc"), deriveSeed("abc"), deriveSeed("c", "ab")]).size).toBe(
      4,
    );
  });
});
