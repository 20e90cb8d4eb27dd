/** Turns under a grammar, of a model whose tokens are bytes: where the grammar begins, and what is free before. */
import { beforeAll, describe, expect, test } from "vitest";
import { bitsOf, isIn } from "../../src/core/engine/allowed.js";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import type { GenerateOptions, Grammar } from "../../src/core/engine/sequence.js";
import { prompt, testEngine } from "./support.js";
import { tiny } from "./tiny-model.js";

let engine: LocalEngine;
beforeAll(async () => {
  engine = await testEngine();
});

const digits = (begin: string) => `root ::= ${begin} [0-9]{4}`;
const stop = [tiny.end, tiny.endOfText];

/** A turn's tokens, and their text without the stop token. */
async function turn(grammar: Grammar | undefined, seed: number, more: Partial<GenerateOptions> = {}) {
  const sequence = engine.open(prompt("A turn: "));
  const generated = await sequence.generate({ maxTokens: 400, sampling: { seed }, stop, grammar, ...more });
  sequence.close();
  const ids = [...generated.tokens];
  const text = Buffer.from(engine.bytes(ids.filter((id) => id < 256))).toString("latin1");
  return { ...generated, ids, text };
}

const seeds = Array.from({ length: 12 }, (_, seed) => seed);

describe("a grammar of the whole turn", () => {
  test("ends the turn with a stop token when it ends", async () => {
    for (const seed of seeds) {
      const { text, stop: end } = await turn({ rules: digits('"n="') }, seed);
      expect(end).toBe("stop");
      expect(text).toMatch(/^n=\d{4}$/);
    }
  });

  test("begins behind thoughts that the prompt has opened, and the turn does not end within them", async () => {
    const thoughts = { open: "<t>", close: "q", opened: true };
    for (const seed of seeds) {
      const { text, stop: end } = await turn({ rules: digits('"n="'), thoughts }, seed);
      if (end === "length") expect(text).not.toContain("q");
      else expect(text).toMatch(/^[^q]*qn=\d{4}$/s);
    }
  });

  test("lets thoughts come first where the model begins them", async () => {
    const thoughts = { open: "<", close: "q", opened: false };
    const texts: string[] = [];
    for (const seed of [...seeds, ...seeds.map((one) => one + 100)]) {
      const { text, stop: end } = await turn({ rules: "root ::= [a-z] [0-9]{4}", thoughts }, seed, {
        sampling: { seed, temperature: 3 },
      });
      if (end === "stop") texts.push(text);
    }
    for (const text of texts) expect(text).toMatch(/^(\s{0,2}<[^q]*q)?[a-z]\d{4}$/s);
    expect(texts.some((text) => !text.includes("<"))).toBe(true);
  });

  test("goes on in a second call from the tokens of the first", async () => {
    const grammar = { rules: digits('"n="') };
    const whole = await turn(grammar, 3);
    const sequence = engine.open(prompt("A turn: "));
    const options = { sampling: { seed: 3 }, stop, grammar };
    const first = await sequence.generate({ ...options, maxTokens: 3 });
    const second = await sequence.generate({ ...options, maxTokens: 400, before: first.tokens });
    sequence.close();
    expect([...first.tokens, ...second.tokens]).toEqual(whole.ids);
  });
});

describe("a grammar that restricts", () => {
  const SIZE = 260;
  const bytes = (text: string) => [...Buffer.from(text)];

  /** Log-probability of each token of a turn among those that `sets` give for its position, from the raw softmax. */
  async function restricted(ids: readonly number[], sets: readonly (readonly number[])[], temperature: number) {
    const given = prompt("A turn: ");
    const scored = await engine.scoreEach?.(Int32Array.from([...given, ...ids]), {
      likeliest: engine.info.vocabularySize,
    });
    return ids.map((id, i) => {
      const all = new Map(scored?.[given.length - 1 + i]?.likeliest.map(({ token, logprob }) => [token, logprob]));
      const weight = (token: number) => Math.exp((all.get(token) as number) / temperature);
      return Math.log(weight(id) / (sets[i] as readonly number[]).reduce((sum, token) => sum + weight(token), 0));
    });
  }

  test("gives the sets, and log-probabilities of draws from them at the turn's temperature", async () => {
    const ten = bytes("0123456789");
    const sets = [bytes("n"), bytes("="), ten, ten, ten, ten, stop];
    const drawn = new Set<string>();
    for (const seed of seeds) {
      const sampling = { seed, temperature: 0.7 };
      const one = await turn({ rules: digits('"n="') }, seed, { sampling, restricts: true });
      expect(one.text).toMatch(/^n=\d{4}$/);
      drawn.add(one.text);
      const { sets: given = [], at = [], set = [] } = one.allowed ?? {};
      expect(at).toEqual([...one.ids.keys()]);
      const members = set.map((number) => {
        const bits = bitsOf(given[number] as string);
        return Array.from({ length: SIZE }, (_, token) => token).filter((token) => isIn(bits, token));
      });
      expect(members.slice(0, -1)).toEqual(sets.slice(0, -1));
      expect(members.at(-1)).toContain(one.ids.at(-1));
      // Digits and the rest: each set is kept once.
      expect(given).toHaveLength(4);
      const wanted = await restricted(one.ids, members, 0.7);
      one.logprobs.forEach((logprob, i) => {
        expect(logprob).toBeCloseTo(wanted[i] as number, 2);
      });
      expect(one.logprobs[0]).toBe(0);
      expect(one.evaluated?.draws?.tokens).toBe(one.ids.length);
    }
    expect(drawn.size).toBeGreaterThan(2);
  });

  test("says nothing of positions where every token may come", async () => {
    const marks = { anywhere: ["<call>"], first: [] };
    const free = await turn(undefined, 1, { maxTokens: 40 });
    const marked = await turn({ rules: digits('"<call>"'), marks }, 1, { maxTokens: 40, restricts: true });
    expect(marked.allowed).toBeUndefined();
    expect(marked.ids).toEqual(free.ids);
    expect([...marked.logprobs]).toEqual([...free.logprobs]);
  });

  test("has the ids of the same grammar that does not, where one token alone may come", async () => {
    const grammar = { rules: 'root ::= "always one thing"' };
    const [one, other] = [await turn(grammar, 5), await turn(grammar, 5, { restricts: true })];
    expect(one.text).toBe("always one thing");
    expect(other.text).toBe(one.text);
    // The last one is one of two that end a turn.
    expect([...other.logprobs].slice(0, -1).every((logprob) => logprob === 0)).toBe(true);
  });
});

describe("a grammar that begins with a mark", () => {
  test("leaves a turn without the mark as it is", async () => {
    for (const seed of seeds.slice(0, 4)) {
      const free = await turn(undefined, seed, { maxTokens: 60 });
      const marked = await turn({ rules: digits('"<call>"'), marks: { anywhere: ["<call>"], first: [] } }, seed, {
        maxTokens: 60,
      });
      expect(marked.ids).toEqual(free.ids);
    }
  });

  test("holds from the mark on, whatever stands before it", async () => {
    let marked = 0;
    for (const seed of seeds) {
      const grammar = { rules: digits('"q"'), marks: { anywhere: ["q"], first: [] } };
      const { text, stop: end } = await turn(grammar, seed, { sampling: { seed, temperature: 3 } });
      if (text.includes("q")) {
        marked++;
        expect(end).toBe("stop");
        expect(text).toMatch(/^[^q]*q\d{4}$/s);
      }
    }
    expect(marked).toBeGreaterThan(0);
  });

  test("knows marks with white space in them, and marks that are such only at the beginning", async () => {
    const rules = 'root ::= "{" [ \\n]* "x" [0-9]{4} | "k" [0-9]{4}';
    const grammar = { rules, marks: { anywhere: ["{ x"], first: ["k"] } };
    // Tokens before the call stand for what the model has sampled.
    const following = async (text: string) => (await turn(grammar, 1, { before: prompt(text), maxTokens: 4 })).text;
    for (const begun of ["k", " \n k", "hm {x", "{ \n x", "{{ x", "a k {x"])
      expect(await following(begun)).toMatch(/^\d{4}$/);
    const free = (await turn(undefined, 1, { maxTokens: 4 })).text;
    expect(free).not.toMatch(/^\d{4}$/);
    for (const other of ["hm k", "{ y", "x"]) expect(await following(other)).toBe(free);
  });

  test("begins after a long text, and in no mark with white space without end", async () => {
    const rules = 'root ::= "{" [ \\n]* "x" [0-9]{4}';
    const grammar = { rules, marks: { anywhere: ["{ x"], first: [] } };
    const following = (text: string) => turn(grammar, 1, { before: prompt(text), maxTokens: 4 });
    const long = "a word and another, ".repeat(10_000);
    expect((await following(`${long}{ x`)).text).toMatch(/^\d{4}$/);
    await expect(following(`${long}{${" ".repeat(100_000)}x`)).rejects.toThrow("does not obey");
  });

  test("refuses what it cannot be", async () => {
    await expect(turn({ rules: "root ::= (" }, 1)).rejects.toThrow("llama.cpp cannot read the grammar");
    const grammar = { rules: digits('"n="') };
    await expect(turn(grammar, 1, { before: prompt("m") })).rejects.toThrow("does not obey");
  });
});
