import { describe, expect, it } from "vitest";
import { MAX_MAILS, mailboxIds } from "../../../../src/email/synthetic/message-ids.js";
import * as phrases from "../../../../src/email/synthetic/phrases.js";
import { idWords, months, pools, topics } from "../../../../src/email/synthetic/pools.js";

const everyPool = [
  ...Object.values(pools.default),
  ...Object.values(pools.reserved),
  ...Object.values(topics),
  ...Object.values(idWords),
  months,
];

describe("the pools of names", () => {
  it("have no word in common and none twice", () => {
    const words = everyPool.flat().map((word) => word.toLowerCase());
    const seen = new Set<string>();
    const twice = words.filter((word) => seen.size === seen.add(word).size);
    expect(twice).toEqual([]);
  });

  it("have no word that occurs in a phrase, so that a search for a name finds the name", () => {
    const texts: string[] = [];
    const collect = (value: unknown): void => {
      if (typeof value === "string") texts.push(value);
      else if (typeof value === "object" && value !== null) Object.values(value).forEach(collect);
    };
    // Questions are not in the mail; all else is.
    const { questions: _, ...inMail } = phrases;
    collect(inMail);
    const used = new Set(texts.flatMap((text) => text.toLowerCase().match(/[a-z]+/g) ?? []));
    expect(used.size).toBeGreaterThan(200);
    expect(
      everyPool
        .flat()
        .map((word) => word.toLowerCase())
        .filter((word) => used.has(word)),
    ).toEqual([]);
  });

  it("have answers near no word that one might search for from the question", () => {
    const wordsOf = (texts: readonly string[]) =>
      new Set(texts.flatMap((text) => text.toLowerCase().match(/\w+/g) ?? []));
    const small = wordsOf(["a t p n is it in on of for the will be to"]);
    const asked = wordsOf(Object.values(phrases.questions).flat());
    const { answers, tails, middles, chats } = phrases;
    const near = wordsOf([
      ...Object.values(answers).flat(),
      ...tails,
      ...chats,
      ...middles.decided,
      ...middles.changed,
    ]);
    expect([...near].filter((word) => asked.has(word) && !small.has(word))).toEqual([]);
  });

  it("are plain words, one token of any reasonable tokenizer's training each", () => {
    for (const word of everyPool.flat()) expect(word).toMatch(/^[A-Za-z][a-z]+$/);
  });
});

describe("message ids", () => {
  it("are unique in a world far larger than two words can name", () => {
    const rows = 3_000;
    const ids = Array.from({ length: rows }, (_, mailbox) => mailboxIds(7, mailbox)).flat();
    expect(ids).toHaveLength(rows * MAX_MAILS);
    expect(new Set(ids).size).toBe(ids.length);
    expect(ids.filter((id) => id.split("-").length === 2)).toHaveLength(1_320 * MAX_MAILS);
    expect(new Set([400_000, 400_008, 1_320].flatMap((mailbox) => mailboxIds(7, mailbox))).size).toBe(3 * MAX_MAILS);
  });
});
