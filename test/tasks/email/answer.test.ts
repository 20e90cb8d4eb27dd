import { describe, expect, it } from "vitest";
import { isGivingUp, sameAnswer } from "../../../src/email/answer.js";

const question = "When is the Falcon deadline?";

describe("an answer is right", () => {
  it.each([
    ["May 14", "may 14."],
    ["May 14", "May 14th"],
    ["May 14", "the 14th of May"],
    ["May 14", "14 May 2025"],
    ["May 14", "Wednesday, May 14, 2025"],
    ["May 14", "2025-05-14"],
    ["May 14", "5/14/2025"],
    ["May 4", "2025-05-04"],
    ["September 3", "Sept. 3"],
    ["May 14", "The Falcon deadline is on May 14."],
    ["May 14", "It is set for May 14"],
    ["$47k", "$47,000"],
    ["$47k", "47 thousand dollars"],
    ["$47k", "US$47,000.00"],
    ["$47k", "47K"],
    ["$1.5 million", "1,500,000 USD"],
    ["€47k", "47,000 euros"],
    ["12%", "12 percent"],
    ["-12%", "minus 12 percent"],
    ["-$47k", "$-47,000"],
    ["three", "3"],
    ["Wanda Ellis", "wanda ellis"],
    ["Wanda Ellis", "**Wanda Ellis**"],
    ["Wanda Ellis", "It will be Wanda Ellis."],
    ["Beyoncé Knowles", "Beyonce Knowles"],
    ["Litware", "The company is Litware"],
    ["the Northwind plant", "Northwind plant"],
    ["2:30 PM", "14:30"],
    ["2 pm", "at 2:00 p.m."],
  ])("%s, said as %s", (golden, given) => {
    expect(sameAnswer(given, golden, `${question} Which company is it?`)).toBe(true);
  });
});

describe("an answer is wrong", () => {
  it.each([
    ["May 14", "May 15"],
    ["May 14", "May 1"],
    ["May 14", "May"],
    ["May 14", "14"],
    ["May 14", "May 14 or June 3"],
    ["May 14", "May 14, May 15, May 16"],
    ["May 14", "not May 14"],
    ["May 14", ""],
    ["May 14", "not found"],
    ["May 14, 2025", "May 14, 2024"],
    ["$47k", "$47"],
    ["$47k", "€47k"],
    ["$47k", "$74k"],
    ["$47k", "-$47k"],
    ["-12%", "It is 12 percent"],
    ["$47k", "$47k or $48k"],
    ["Wanda Ellis", "Wanda"],
    ["Wanda Ellis", "Wanda Webb"],
    ["Wanda Ellis", "Ellis Wanda"],
    ["Wanda Ellis", "Wanda Ellis Gavin Diaz"],
    ["Denver", "Falcon deadline"],
    ["no", "yes"],
    ["2:30 PM", "2:30 AM"],
    ["the", "a"],
  ])("%s, said as %s", (golden, given) => {
    expect(sameAnswer(given, golden, question)).toBe(false);
  });

  it("when it is endless, without work", () => {
    expect(sameAnswer(`May 14 ${"may 14 ".repeat(200_000)}`, "May 14")).toBe(false);
  });
});

describe("giving up", () => {
  it.each([
    "not found",
    "Not found.",
    "I don't know",
    "Sorry, I could not find it",
    "unknown",
    "N/A",
    " ",
    "None found",
  ])("is said as %s", (given) => expect(isGivingUp(given)).toBe(true));
  it.each(["May 14", "Nonesuch Inc", "Knoxville", "Notting Hill"])("is not said as %s", (given) =>
    expect(isGivingUp(given)).toBe(false),
  );
});
