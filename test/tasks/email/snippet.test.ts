import Database from "better-sqlite3";
import { describe, expect, it } from "vitest";
import { Random } from "../../../src/core/util/random.js";
import { phrasesOf, snippetOf } from "../../../src/email/snippet.js";
import { syntheticWorld } from "../../../src/email/synthetic/world.js";

const snippet = (body: string, keywords: string[], subject = "") => snippetOf(subject, body, phrasesOf(keywords));
const ROUNDS = process.env.TEST_FULL ? 4000 : 1000;
/** "w0 w1 w2 ..." */
const words = (count: number, from = 0) => Array.from({ length: count }, (_, n) => `w${from + n}`).join(" ");

it("shows a short mail whole, in one line", () => {
  expect(snippet("Lunch\n\n  is at noon.\n", ["noon"])).toBe("Lunch is at <b>noon</b>.");
});

it("cuts 15 words with the keyword in the middle, and says where something is left out", () => {
  expect(snippet(words(40), ["w20"])).toBe(`... ${words(7, 13)} <b>w20</b> ${words(7, 21)} ...`);
  expect(snippet(words(40), ["w2"])).toBe(`w0 w1 <b>w2</b> ${words(12, 3)} ...`);
  expect(snippet(words(40), ["w39"])).toBe(`... ${words(14, 25)} <b>w39</b>`);
});

it("prefers the place with the most keywords to the first", () => {
  const body = `falcon ${words(30)} falcon deadline ${words(30)}`;
  expect(snippet(body, ["falcon", "deadline"])).toContain("<b>falcon</b> <b>deadline</b>");
});

it("marks every occurrence in sight, and phrases as one", () => {
  expect(snippet("New York, new york and new jersey", ["new york"])).toBe(
    "<b>New York</b>, <b>new york</b> and new jersey",
  );
});

it("compares without case and diacritics, as the search does", () => {
  expect(snippet("Un CAFÉ, un cafe\u0301, un Cafe", ["café"])).toBe(
    "Un <b>CAFÉ</b>, un <b>cafe\u0301</b>, un <b>Cafe</b>",
  );
  expect(snippet("plain CAFE", ["café"])).toBe("plain <b>CAFE</b>");
  expect(snippet("O'Neil's", ["o'neil's"])).toBe("<b>O'Neil's</b>");
});

it("cuts from the subject when the body has no more of the keywords", () => {
  expect(snippet("see above", ["falcon"], "Falcon lands")).toBe("<b>Falcon</b> lands");
  expect(snippet("the falcon lands", ["falcon", "the"], "Falcon lands")).toBe("<b>the</b> <b>falcon</b> lands");
});

it("begins with the sentence when that has as many keywords", () => {
  const body = `${words(20)}. On Monday w21 w22 w23 deadline ${words(20, 30)}`;
  expect(snippet(body, ["deadline"])).toBe(`... On Monday w21 w22 w23 <b>deadline</b> ${words(9, 30)} ...`);
});

describe("cuts where FTS5's snippet() cuts", () => {
  const db = new Database(":memory:");
  db.exec("CREATE VIRTUAL TABLE mail USING fts5(subject, body)");
  const insert = db.prepare("INSERT INTO mail VALUES (?, ?)");
  const oracle = db
    .prepare("SELECT snippet(mail, -1, '<b>', '</b>', ' ... ', 15) FROM mail WHERE mail MATCH ? AND rowid = ?")
    .pluck();
  /** What FTS5 shows, in one line; undefined when the mail does not match. */
  const fts5 = (keywords: string[], operator: string, row: number | bigint) =>
    (oracle.get(keywords.map((keyword) => `"${keyword}"`).join(operator), BigInt(row)) as string | undefined)
      ?.replace(/\s+/g, " ")
      .trim();

  it.each([" AND ", " OR "])("in generated texts, keywords joined by%s", (operator) => {
    const random = new Random("snippets", operator);
    const vocabulary = ["falcon", "Deadline", "the", "The", "of", "Café", "a", "x1", "O'Neil", "due", "on", "naïve"];
    const text = (most: number) =>
      Array.from({ length: random.integer(0, most) }, () => {
        const end = random.weighted([
          [" ", 20],
          [". ", 2],
          [": ", 1],
          [".", 1],
          [", ", 1],
          ["\n\n", 1],
          [".\n", 1],
        ]);
        return (random.chance(0.5) ? random.pick(vocabulary) : `w${random.integer(0, 99)}`) + end;
      }).join("");
    let compared = 0;
    for (let round = 0; round < ROUNDS; round++) {
      const [subject, body] = [text(8), text(random.pick([10, 30, 150]))];
      const phrase = () =>
        random
          .sample(
            vocabulary,
            random.weighted([
              [1, 5],
              [2, 1],
            ]),
          )
          .join(" ");
      const keywords = [
        ...new Set(Array.from({ length: random.integer(1, 3) }, phrase).map((one) => one.toLowerCase())),
      ];
      const expected = fts5(keywords, operator, insert.run(subject, body).lastInsertRowid);
      if (expected === undefined) continue;
      compared++;
      expect(snippetOf(subject, body, phrasesOf(keywords)), JSON.stringify([subject, body, keywords])).toBe(expected);
    }
    expect(compared).toBeGreaterThan(ROUNDS / 8);
  });

  it("in synthetic mail", () => {
    let compared = 0;
    for (const { mails, scenarios } of syntheticWorld({ seed: 5, mailboxes: 4 })) {
      const words = [...new Set(scenarios.flatMap(({ question }) => question.toLowerCase().match(/\w+/g) ?? []))];
      for (const { subject, body } of mails) {
        const row = insert.run(subject, body).lastInsertRowid;
        for (const [index, word] of words.entries()) {
          const keywords = [...new Set([word, words[(index * 7) % words.length] as string])];
          const expected = fts5(keywords, " OR ", row);
          if (expected === undefined) continue;
          compared++;
          expect(snippetOf(subject, body, phrasesOf(keywords))).toBe(expected);
        }
      }
    }
    expect(compared).toBeGreaterThan(1000);
  });
});

it("shows the beginning when the keywords are not to be seen", () => {
  expect(snippet(words(40), ["absent"])).toBe(`${words(15)} ...`);
  expect(snippet("", ["absent"])).toBe("");
  expect(snippet("---", ["absent"])).toBe("---");
});

it("shortens rules, and words that are no words", () => {
  expect(snippet(`a ${"-=".repeat(2)}${"_".repeat(70)} b`, ["b"])).toBe("a -=-=___ <b>b</b>");
  expect(snippet(`${"x".repeat(5000)} end`, ["x".repeat(5000)])).toBe(`<b>${"x".repeat(297)}</b> ...`);
});

it("looks for a while, not for ever", () => {
  const body = `the ${words(10_000)} rare`;
  expect(snippet(body, ["the", "rare"])).toBe(`<b>the</b> ${words(14)} ...`);
  expect(snippet(body, ["rare"])).toContain("<b>rare</b>");
});
