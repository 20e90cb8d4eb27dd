/** Rollouts of a group that cannot be the same by chance. */
import { expect, it } from "vitest";
import { checkDraws } from "../../src/guards/draws.js";
import { trajectoryOf } from "./support/fakes.js";

/** Rollouts of one scenario with these tokens, each of the same log-probability. */
const group = (sampled: readonly number[][], logprob: number) =>
  sampled.map((own, index) => ({
    ...trajectoryOf({ index }),
    tokens: {
      ids: [7, ...own],
      sampled: [0, ...own.map(() => 1)],
      logprobs: [0, ...own.map(() => logprob)],
    },
  }));

it("stops a step in which a group drew one unlikely sequence twice", () => {
  const long = Array.from({ length: 30 }, (_, i) => i);
  expect(checkDraws(group([long, [1, 2], long, [3]], -1))).toMatch(
    /2 of 4 rollouts of the scenario s0 drew the same tokens, of probability e\^-30\.0/,
  );
});

it("takes what is likely to coincide: short answers, and those of a model that is sure", () => {
  expect(checkDraws(group([[1, 2], [1, 2], [1, 2], [4]], -0.7))).toBeUndefined();
  const long = Array.from({ length: 30 }, (_, i) => i);
  expect(checkDraws(group([long, long, long, long], -0.01))).toBeUndefined();
  expect(checkDraws(group([long, long], 0))).toBeUndefined();
});

it("sees a short answer that all have, where each alone would be no surprise", () => {
  const eight = Array.from({ length: 8 }, () => [1, 2, 3, 4, 5]);
  expect(checkDraws(group(eight, -1))).toMatch("8 of 8 rollouts");
  expect(checkDraws(group(eight.slice(0, 2), -1))).toBeUndefined();
});

it("does not compare rollouts in which nothing was sampled", () => {
  expect(checkDraws(group([[], [], []], -1))).toBeUndefined();
});
