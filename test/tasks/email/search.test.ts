import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { MailDatabase } from "../../../src/email/reader.js";
import type { MailQuery } from "../../../src/email/search.js";
import { databaseOf, mail, temporaryFolder } from "../../support/mails.js";

const folder = temporaryFolder();
let db: MailDatabase;
const inbox = "bob@x.com";

/** Ids of what bob finds. */
const found = (query: Partial<MailQuery> & { keywords: string[] }, today?: string) =>
  db.search({ inbox, today }, query).map(({ messageId }) => messageId);

beforeAll(() => {
  db = databaseOf(`${folder.path}/mail.db`, [
    mail({ messageId: "<old>", date: "2001-01-01 10:00:00", subject: "Falcon", body: "The deadline is May 14." }),
    mail({ messageId: "<new>", date: "2001-03-01 00:00:00", body: "Falcon has a new deadline. Falcon moves." }),
    mail({ messageId: "<late>", date: "2001-03-01 23:59:59", body: "falcon, in the late evening" }),
    mail({ messageId: "<next>", date: "2001-03-02 00:00:00", body: "falcon of the next day" }),
    mail({ messageId: "<undated>", date: undefined, body: "falcon without a date" }),
    mail({ messageId: "<sent>", from: inbox, to: ["cy@x.com"], body: "I asked about the eagle" }),
    mail({ messageId: "<cc>", from: "cy@x.com", to: ["ann@x.com"], cc: [inbox], body: "the eagle has landed" }),
    mail({ messageId: "<bcc>", from: "cy@x.com", to: [], bcc: [inbox], body: "an eagle, blind copy" }),
    mail({ messageId: "<foreign>", to: ["cy@x.com"], body: "falcon and eagle, none of bob's business" }),
    mail({
      messageId: "<odd>",
      body: "Don't pay O'Neil's 1,250.50 for the Café's 4x4 NEAR Zürich; naïve über-plan 日本",
    }),
    mail({ messageId: "<t1>", body: "the token t1 stands here" }),
    mail({ messageId: "<rule>", body: `header ${"-".repeat(80)}\n\n\n\t  kestrel ${"=".repeat(80)} footer` }),
    mail({ messageId: "<long>", body: `merlin ${"x".repeat(2000)}` }),
  ]);
});
afterAll(() => {
  db.close();
  folder.remove();
});

describe("search by date", () => {
  it("finds mails with all keywords, newest first, undated ones last", () => {
    expect(found({ keywords: ["falcon"] })).toEqual(["<next>", "<late>", "<new>", "<old>", "<undated>"]);
    expect(found({ keywords: ["falcon", "deadline"] })).toEqual(["<new>", "<old>"]);
    expect(found({ keywords: ["falcon", "eagle"] })).toEqual([]);
  });

  it("looks in subject and body, also with one word in each", () => {
    expect(found({ keywords: ["Falcon", "May"] })).toEqual(["<old>"]);
  });

  it("takes a keyword of several words as a phrase", () => {
    expect(found({ keywords: ["new deadline"] })).toEqual(["<new>"]);
    expect(found({ keywords: ["deadline new"] })).toEqual([]);
  });

  it("sees what the inbox sent or received, and nothing else", () => {
    expect(found({ keywords: ["eagle"] }).sort()).toEqual(["<bcc>", "<cc>", "<sent>"]);
    expect(db.search({ inbox: "Bob <BOB@X.com>" }, { keywords: ["eagle"] })).toHaveLength(3);
    expect(db.search({ inbox: "nobody@x.com" }, { keywords: ["eagle"] })).toEqual([]);
  });

  it("shows no mail of a later day, and none that might be", () => {
    expect(found({ keywords: ["falcon"] }, "2001-03-01")).toEqual(["<late>", "<new>", "<old>"]);
    expect(found({ keywords: ["falcon"], sentBefore: "2009-01-01" }, "2001-02-28")).toEqual(["<old>"]);
    expect(found({ keywords: ["falcon"] }, "2000-12-31")).toEqual([]);
  });

  it("counts the days of its bounds in", () => {
    expect(found({ keywords: ["falcon"], sentBefore: "2001-03-01" })).toEqual(["<late>", "<new>", "<old>"]);
    expect(found({ keywords: ["falcon"], sentAfter: "2001-03-01" })).toEqual(["<next>", "<late>", "<new>"]);
    expect(found({ keywords: ["falcon"], sentAfter: "2001-03-01", sentBefore: "2001-03-01" })).toHaveLength(2);
    expect(found({ keywords: ["falcon"], sentAfter: "2001-03-02", sentBefore: "2001-03-01" })).toEqual([]);
  });

  it("filters by sender and recipient, however the address is written", () => {
    expect(found({ keywords: ["eagle"], fromAddr: "Cy <CY@x.com>" }).sort()).toEqual(["<bcc>", "<cc>"]);
    expect(found({ keywords: ["eagle"], toAddr: "cy@x.com" })).toEqual(["<sent>"]);
    expect(found({ keywords: ["eagle"], fromAddr: "cy@x.com", toAddr: "ann@x.com" })).toEqual(["<cc>"]);
    expect(found({ keywords: ["eagle"], fromAddr: "stranger@x.com" })).toEqual([]);
  });

  it("gives as many hits as asked for", () => {
    expect(found({ keywords: ["falcon"], maxResults: 2 })).toEqual(["<next>", "<late>"]);
  });

  it.each([
    ["don't"],
    ["O'Neil's"],
    ["1,250.50"],
    ["café"],
    ["cafe\u0301"],
    ["CAFE"],
    ["4x4"],
    ["ZURICH"],
    ["über-plan"],
    ["日本"],
  ])("finds %s", (keyword) => {
    expect(found({ keywords: [keyword] })).toEqual(["<odd>"]);
  });

  it.each([
    ['pay" OR "falcon', []],
    ["pay OR falcon", []],
    ["NEAR(pay neil)", []],
    ["NEAR", ["<odd>"]],
    ["pa*", []],
    ["^pay", ["<odd>"]],
    ["body:pay", []],
    ["-pay", ["<odd>"]],
    ["pay\0falcon", []],
    ["pay 👍", ["<odd>"]],
    ["'; DROP TABLE emails; --", []],
    ["\ud800 pay", ["<odd>"]],
  ])("looks for %j as it stands", (keyword, expected) => {
    expect(found({ keywords: [keyword] })).toEqual(expected);
  });

  it("never finds the index's own tokens for people", () => {
    expect(found({ keywords: ["t1"] })).toEqual(["<t1>"]);
    expect(found({ keywords: ["f1"] })).toEqual([]);
    expect(found({ keywords: ["people:t1"] })).toEqual([]);
  });

  it("cuts a snippet of one line around the keywords", () => {
    const [hit] = db.search({ inbox }, { keywords: ["falcon", "deadline"] });
    expect(hit).toEqual({
      messageId: "<new>",
      date: "2001-03-01 00:00:00",
      subject: "Budget",
      snippet: "<b>Falcon</b> has a new <b>deadline</b>. <b>Falcon</b> moves.",
    });
    expect(db.search({ inbox }, { keywords: ["kestrel"] })[0]?.snippet).toBe("header --- <b>kestrel</b> === footer");
    expect(db.search({ inbox }, { keywords: ["merlin"] })[0]?.snippet.length).toBeLessThanOrEqual(304);
  });
});

describe("search by bm25", () => {
  it("finds mails with any keyword, the best match first", () => {
    const hits = found({ keywords: ["deadline", "May", "14", "falcon"], rank: "bm25" });
    expect(hits[0]).toBe("<old>");
    expect(hits).toContain("<next>");
  });

  it("keeps to inbox and day all the same", () => {
    expect(found({ keywords: ["falcon", "eagle"], rank: "bm25" }, "2001-02-28").sort()).toEqual(
      ["<old>", "<sent>", "<cc>", "<bcc>"].sort(),
    );
  });

  it("leaves out the commonest words, unless there are no others", () => {
    const many = Array.from({ length: 200 }, (_, n) => mail({ body: `the usual ${n}` }));
    const big = databaseOf(`${folder.path}/big.db`, [...many, mail({ messageId: "<rare>", body: "landed" })]);
    const ids = (keywords: string[]) => big.search({ inbox }, { keywords, rank: "bm25" }).map((hit) => hit.messageId);
    expect(ids(["the", "landed"])).toEqual(["<rare>"]);
    expect(ids(["the"])).toHaveLength(10);
    expect(ids(["the", "usual"])).toHaveLength(10);
    expect(ids(["the usual", "landed"])).toHaveLength(10);
    big.close();
  });
});

describe("a search that asks for nothing, or too much", () => {
  it.each([
    ["no keywords", { keywords: [] }, "keywords is empty"],
    ["a blank keyword", { keywords: ["  "] }, 'the keyword "  " has no word in it'],
    ["signs only", { keywords: ["falcon", '"*^👍"'] }, "has no word in it"],
    ["a huge keyword", { keywords: ["x".repeat(1_000_000)] }, "a keyword has 1000000 characters: give at most 200"],
    ["a whole sentence", { keywords: ["a b c d e f g h i j k"] }, "at most 10 words"],
    ["many keywords", { keywords: Array(33).fill("x") }, "33 keywords are too many"],
    ["too many results", { keywords: ["x"], maxResults: 11 }, "max_results must be a whole number from 1 to 10"],
    ["no results", { keywords: ["x"], maxResults: 0 }, "from 1 to 10"],
    ["half a result", { keywords: ["x"], maxResults: 1.5 }, "from 1 to 10"],
    [
      "a month for a day",
      { keywords: ["x"], sentAfter: "2001-03" },
      'sent_after must be a day as YYYY-MM-DD, not "2001-03"',
    ],
    ["a day that is none", { keywords: ["x"], sentBefore: "2001-02-30" }, "sent_before must be a day"],
  ])("is refused in one line: %s", (_, query, message) => {
    expect(() => found(query)).toThrow(
      expect.objectContaining({ name: "ToolError", message: expect.stringContaining(message) }),
    );
  });
});
