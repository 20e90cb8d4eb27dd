import { expect, it } from "vitest";
import { phrasesOf, snippetOf } from "../../../src/task/email/snippet.js";

const snippet = (body: string, keywords: string[], subject = "") => snippetOf(subject, body, phrasesOf(keywords));
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

it("cuts from the subject when it has more of the keywords", () => {
  expect(snippet("see above", ["falcon"], "Falcon lands")).toBe("<b>Falcon</b> lands");
  expect(snippet("the falcon", ["falcon"], "Falcon lands")).toBe("the <b>falcon</b>");
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
