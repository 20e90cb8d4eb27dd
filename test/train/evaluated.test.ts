/** A rollout's record against what the engine says that it evaluated. */
import { describe, expect, it } from "vitest";
import { afterTurn, digestOf, digestOfLogprobs } from "../../src/core/engine/evaluated.js";
import type { Evaluated } from "../../src/core/engine/sequence.js";
import type { TokenRecord } from "../../src/core/rollout/transcript.js";
import { deriveSeed } from "../../src/core/util/random.js";
import { checkEvaluated } from "../../src/guards/evaluated.js";
import { trajectoryOf } from "./support/fakes.js";

const ids = [5, 6, 20, 21, 2, 9, 22, 2];
const evaluated: Evaluated = {
  ...{ tokens: ids.length, digest: digestOf(ids), temperature: 1, truncated: false, foreign: false, seed: 1 },
  drawn: [
    [2, 5],
    [6, 8],
  ],
};
const record = (changed: Partial<TokenRecord> = {}): TokenRecord => ({
  ids: [...ids],
  sampled: [0, 0, 1, 1, 1, 0, 1, 1],
  logprobs: [0, 0, -1, -1, -1, 0, -1, -1],
  evaluated,
  ...changed,
});
const group = (tokens: TokenRecord, branches: TokenRecord[] = []) => [
  { ...trajectoryOf({}), id: "s0/0", tokens, branches: branches.map((one) => ({ messages: [], tokens: one })) },
];

describe("a rollout", () => {
  it("is taken when it has the tokens that were evaluated, and a closing one behind them", () => {
    expect(checkEvaluated(group(record()), 1)).toBeUndefined();
    const closed = record({ ids: [...ids, 3], sampled: [...record().sampled, 0], logprobs: [...record().logprobs, 0] });
    expect(checkEvaluated(group(closed, [record()]), 1)).toBeUndefined();
    const { evaluated: _, ...unsaid } = record();
    expect(checkEvaluated(group(unsaid), 1)).toBeUndefined();
  });

  it.each([
    ["another id", record({ ids: ids.map((id, i) => (i === 3 ? 30 : id)) })],
    ["two ids in another order", record({ ids: [6, 5, ...ids.slice(2)] })],
    [
      "a prompt without its last token",
      record({ evaluated: { ...evaluated, digest: digestOf([5, ...ids.slice(2)]) } }),
    ],
  ])("with %s is refused, in a branch too", (_, tokens) => {
    const words = "the rollout s0/0 is not what was played: the 8 tokens that the engine evaluated are not those";
    expect(checkEvaluated(group(tokens), 1)).toMatch(words);
    expect(checkEvaluated(group(record(), [tokens]), 1)).toMatch(words);
  });

  it("with fewer tokens than were evaluated, or sampled ones behind them, is refused", () => {
    const words = (n: number) => `the engine evaluated ${n} tokens of a sequence that is recorded with 8`;
    const longer = { ...evaluated, tokens: 9 };
    expect(checkEvaluated(group(record({ evaluated: longer })), 1)).toMatch(words(9));
    const shorter = { ...evaluated, tokens: 6, digest: digestOf(ids.slice(0, 6)) };
    expect(checkEvaluated(group(record({ evaluated: shorter })), 1)).toMatch(words(6));
  });

  it.each([
    ["the first drawn token as given", 2, "drew token 2, which is recorded as given"],
    ["a stop token as given", 4, "drew token 4, which is recorded as given"],
    ["a tool's result as sampled", 5, "did not draw token 5, which is recorded as sampled"],
  ])("with %s is refused", (_, at, words) => {
    const sampled = record().sampled.map((flag, i) => (i === at ? 1 - flag : flag));
    expect(checkEvaluated(group(record({ sampled })), 1)).toMatch(words);
  });

  it("is judged from the first turn on that the engine tells of", () => {
    const said: Evaluated = { ...evaluated, drawn: [[6, 8]] };
    expect(checkEvaluated(group(record({ evaluated: said })), 1)).toBeUndefined();
    const first: Evaluated = { ...evaluated, tokens: 5, drawn: [[2, 5]] };
    expect(afterTurn(first, said)).toEqual(evaluated);
  });

  it("with other log-probabilities than the engine told is refused; one that lay above 0, or told nothing, is taken", () => {
    const told = digestOfLogprobs([-1, Math.fround(-0.123456), 2e-4]);
    const said: Evaluated = {
      ...evaluated,
      drawn: [
        [2, 5, told],
        [6, 8],
      ],
    };
    const recorded = (logprobs: number[]) => group(record({ logprobs, evaluated: said }));
    expect(checkEvaluated(recorded([0, 0, -1, Math.fround(-0.123456), 0, 0, -3, -4]), 1)).toBeUndefined();
    const words = "the log-probabilities of its tokens 2 to 4 are recorded otherwise than the engine told them";
    expect(checkEvaluated(recorded([0, 0, -1, -0.12, 0, 0, -3, -4]), 1)).toMatch(words);
    expect(checkEvaluated(recorded([0, 0, Math.fround(-0.123456), -1, 0, 0, -3, -4]), 1)).toMatch(words);
  });

  it("that goes on from keys and values of another adapter is refused, in a later turn too", () => {
    const words = "keys and values were computed with another adapter than the one that played";
    const foreign = { ...evaluated, foreign: true };
    expect(checkEvaluated(group(record({ evaluated: foreign })), 1)).toMatch(words);
    expect(afterTurn(foreign, evaluated)?.foreign).toBe(true);
  });

  it("that drew with another seed than hone gave is refused; sequences of an agent have one each, in any order", () => {
    const seeded = (seed: number) => record({ evaluated: { ...evaluated, seed } });
    const further = (number: number) => seeded(deriveSeed(1, "sequence", number));
    const ofAgent = (tokens: TokenRecord, ...branches: TokenRecord[]) =>
      group(tokens, branches).map((one) => ({ ...one, agent: { completions: 3, sequences: 3 } }));
    const words = /drew with the seed \d+, and it is recorded with 1/;
    expect(checkEvaluated(group(seeded(9)), 1)).toMatch(words);
    expect(checkEvaluated(group(further(1)), 1)).toMatch(words);
    expect(checkEvaluated(ofAgent(further(2), record(), further(1)), 1)).toBeUndefined();
    expect(checkEvaluated(ofAgent(record(), seeded(9)), 1)).toMatch(words);
  });

  it("of another distribution than the step trains on is refused", () => {
    // The engine has it in f32.
    expect(
      checkEvaluated(group(record({ evaluated: { ...evaluated, temperature: Math.fround(0.7) } })), 0.7),
    ).toBeUndefined();
    expect(checkEvaluated(group(record()), 0.7)).toMatch(
      "the engine sampled at temperature 1, and the step trains at 0.7; the step was not taken",
    );
    expect(checkEvaluated(group(record({ evaluated: { ...evaluated, truncated: true } })), 1)).toMatch(
      "the engine sampled from the likeliest tokens alone",
    );
  });
});
