import { describe, expect, it } from "vitest";
import { z } from "zod";
import type { FinishedRollout, Scenario } from "../../src/core/task/task.js";
import { answerOf, exactMatch, jsonMatch, matches, numericMatch } from "../../src/judge/reward/checks.js";
import { composeReward } from "../../src/judge/reward/compose.js";

interface Sum extends Scenario {
  readonly target: number;
}

const scenario: Sum = { id: "s1", split: "train", question: "2 + 2?", target: 4 };

const rollout = (answer: Record<string, unknown> | undefined, turns = 2): FinishedRollout => ({
  messages: [],
  calls: [],
  answer,
  end: "answered",
  turns,
  maxTurns: 10,
});
const said = (text: string) => rollout({ text });

describe("a composed reward", () => {
  const reward = composeReward<Sum>({
    parts: {
      right: { weight: 1, score: numericMatch(({ target }) => target) },
      long: { weight: -0.5, score: ({ turns, maxTurns }) => turns / maxTurns },
      form: { weight: 0.25, score: matches(/^answer:/i) },
    },
    success: "right",
  });

  it("is the weighted sum of its parts, each kept unweighted beside it", async () => {
    expect(await reward(said("Answer: 4"), scenario, undefined)).toEqual({
      reward: 1 - 0.5 * 0.2 + 0.25,
      success: true,
      parts: { right: 1, long: 0.2, form: 1 },
    });
    expect(await reward(said("5"), scenario, undefined)).toMatchObject({
      success: false,
      parts: { right: 0, form: 0 },
    });
  });

  it("says when the scenario is solved: by a part, or by a function of all", async () => {
    const parts = { half: { weight: 1, score: () => 0.5 } };
    const solved = async (success: Parameters<typeof composeReward>[0]["success"]) =>
      (await composeReward({ parts, success })(said(""), scenario, undefined)).success;
    expect(await solved("half")).toBe(false);
    expect(await solved(({ half }) => half === 0.5)).toBe(true);
  });

  it("is loud about a part that throws or gives no number", async () => {
    const broken = (score: () => unknown) =>
      composeReward({
        parts: { fine: { weight: 1, score: () => 1 }, bad: { weight: 1, score: score as () => number } },
        success: "fine",
      });
    const result = (score: () => unknown) => broken(score)(said(""), scenario, undefined);
    await expect(
      result(() => {
        throw new Error("no such field");
      }),
    ).rejects.toThrow("the part bad of the reward, on scenario s1, threw: no such field");
    await expect(result(() => 1n as unknown as number)).rejects.toThrow(
      /the part bad .* gave 1 .*, which is no number/,
    );
    await expect(result(() => Number.NaN)).rejects.toThrow(/the part bad .* gave .*NaN.*, which is no number/);
    await expect(result(() => undefined)).rejects.toThrow(/gave undefined/);
    await expect(result(() => "1")).rejects.toThrow(/gave "1"/);
  });

  it("refuses what composes nothing", () => {
    const part = { weight: 1, score: () => 1 };
    expect(() => composeReward({ parts: {}, success: () => true })).toThrow(/at least one part/);
    expect(() => composeReward({ parts: { a: part }, success: "b" })).toThrow(
      /success is b, and there is no such part/,
    );
    expect(() => composeReward({ parts: { ruler: part }, success: "ruler" })).toThrow(/the name ruler is the judge's/);
    expect(() => composeReward({ parts: { a: { ...part, weight: Number.NaN } }, success: "a" })).toThrow(
      /weight of a is NaN/,
    );
    expect(() => composeReward({ parts: { a: part }, success: "a", ruler: Number.NaN })).toThrow(/weight of ruler/);
  });
});

describe("checks", () => {
  it("look at the text, the only argument, or a field", () => {
    expect(answerOf()(said("x"))).toBe("x");
    expect(answerOf()(rollout({ value: 3 }))).toBe(3);
    expect(answerOf()(rollout({ a: 1, b: 2 }))).toEqual({ a: 1, b: 2 });
    expect(answerOf("b")(rollout({ a: 1, b: 2 }))).toBe(2);
    expect(answerOf()(rollout(undefined))).toBeUndefined();
  });

  it.each([
    ["  New   York. ", true],
    ["new york!", true],
    ["NYC", true],
    ["New York City", false],
    ["", false],
  ])("exactMatch: %j is right: %s", (text, right) => {
    expect(exactMatch(() => ["New York", "NYC"])(said(text), scenario)).toBe(right);
  });

  it("exactMatch takes numbers, and no answer is wrong", () => {
    expect(exactMatch<Sum>(({ target }) => target)(rollout({ value: 4 }), scenario)).toBe(true);
    expect(exactMatch(() => "undefined")(rollout(undefined), scenario)).toBe(false);
  });

  it.each([
    ["2 + 2 = 4", true],
    ["4.0", true],
    ["about 4.0000001", true],
    ["-4", false],
    ["4, then 5", false],
    ["four", false],
  ])("numericMatch: %j is 4: %s", (text, right) => {
    expect(numericMatch<Sum>(({ target }) => target)(said(text), scenario)).toBe(right);
  });

  it("numericMatch says of which scenario it expects no number", () => {
    const expecting = numericMatch(() => Number("1,234"));
    for (const text of ["1234", "no number"])
      expect(() => expecting(said(text), scenario)).toThrow(
        `the number that numericMatch expects of the scenario ${scenario.id} is NaN`,
      );
  });

  it("numericMatch reads thousands, exponents and a tolerance", () => {
    const is = (wanted: number, text: string, tolerance?: number) =>
      numericMatch(() => wanted, tolerance === undefined ? {} : { tolerance })(said(text), scenario);
    expect([is(1234567, "1,234,567"), is(1200, "1.2e3"), is(-3, "it is -3"), is(0, "0.0000001")]).toEqual([
      true,
      true,
      true,
      true,
    ]);
    expect([is(100, "101", 0.02), is(100, "103", 0.02)]).toEqual([true, false]);
  });

  it.each([
    [0.5, ".5", true],
    [5, ".5", false],
    [0.75, "The probability is .75", true],
    [5, "the answer is...5", true],
    [5, "see point.5", true],
    [-5, "\u22125", true],
    [5, "\u22125", false],
    [5, "3-5", true],
    [-5, "x = -5", true],
    [19, "covid-19", true],
    [1234567, "1\u202f234\u00a0567", true],
    [3, "3.", true],
  ])("numericMatch: %d is the number in %j: %s", (wanted, text, right) => {
    expect(numericMatch(() => wanted)(said(text), scenario)).toBe(right);
  });

  it("matches does not remember where it was", () => {
    const check = matches(/a/g);
    expect([check(said("a")), check(said("a")), check(said("b")), check(rollout(undefined))]).toEqual([
      true,
      true,
      false,
      false,
    ]);
  });

  it("jsonMatch reads JSON, fenced or not, and holds it to a schema", () => {
    const schema = z.object({ n: z.number() });
    const fits = (text: string) => [jsonMatch()(said(text)), jsonMatch(schema)(said(text))];
    expect(fits('{"n": 1}')).toEqual([true, true]);
    expect(fits('```json\n{"n": 1}\n```')).toEqual([true, true]);
    expect(fits('{"n": "1"}')).toEqual([true, false]);
    expect(fits("{n: 1}")).toEqual([false, false]);
    expect(jsonMatch(schema, answerOf("o"))(rollout({ o: { n: 2 }, other: 1 }))).toBe(true);
  });
});
