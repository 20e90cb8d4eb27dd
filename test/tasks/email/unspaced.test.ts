/** Search in mail of scripts that write no spaces, or glue particles to words. */
import Database from "better-sqlite3";
import { afterAll, beforeAll, expect, it } from "vitest";
import { type MailDatabase, openMailDatabase } from "../../../src/email/reader.js";
import { databaseOf, mail, temporaryFolder } from "../../support/mails.js";

const folder = temporaryFolder();
const file = `${folder.path}/mail.db`;
const inbox = "bob@x.com";
const bodies = {
  zh: "明天的会议改到下午三点，请大家准时参加。",
  glued: "重跑gen-itgc后50条悬空引用清零，见２０２３年ＡＢＣ计划。",
  wrapped: "各位同事：季度预\n算已经批准。",
  ja: "会議は三時に変更されました。ﾃﾞｰﾀを確認",
  ko: "회의가 세 시로 변경되었습니다.",
  parts: "예산안을 보냅니다".normalize("NFD"),
  th: "การประชุมเลื่อนเป็นวันศุกร์ ม้าตัวนี้สีดำ",
  lo: "ກອງປະຊຸມຖືກເລື່ອນໄປ",
  km: "កិច្ចប្រជុំត្រូវបានពន្យារពេល",
  my: "အစည်းအဝေးကိုရွှေ့ဆိုင်းသည်",
};
let db: MailDatabase;

beforeAll(() => {
  db = databaseOf(
    file,
    Object.entries(bodies).map(([id, body]) => mail({ messageId: id, subject: "x", body })),
  );
});
afterAll(() => {
  db.close();
  folder.remove();
});

const found = (keyword: string, from = db) =>
  from.search({ inbox }, { keywords: [keyword] }).map(({ messageId }) => messageId);

it.each([
  ["会议", "zh"],
  ["三点", "zh"],
  ["议", "zh"],
  ["会议改到下午", "zh"],
  ["悬空引用", "glued"],
  ["gen-itgc", "glued"],
  ["itgc", "glued"],
  ["50", "glued"],
  ["50条", "glued"],
  ["2023", "glued"],
  ["abc", "glued"],
  ["预算", "wrapped"],
  ["変更", "ja"],
  ["三時", "ja"],
  ["データ", "ja"],
  ["회의", "ko"],
  ["변경", "ko"],
  ["예산", "parts"],
  ["ประชุม", "th"],
  ["วันศุกร์", "th"],
  ["ม้า", "th"],
  ["ປະຊຸມ", "lo"],
  ["ប្រជុំ", "km"],
  ["အစည်းအဝေး", "my"],
])("finds %s inside of a clause", (keyword, id) => {
  expect(found(keyword)).toEqual([id]);
});

it.each(["议会", "会议三点", "ge", "5", "มา", "ประชม", "변경이"])("does not find %s, which is not there", (keyword) => {
  expect(found(keyword)).toEqual([]);
});

it.each([
  [["会议", "三点"], "明天的<b>会议</b>改到下午<b>三点</b>，请大家准时参加。"],
  [["gen-itgc", "50条"], "重跑<b>gen-itgc</b>后<b>50条</b>悬空引用清零，见２０２３年ＡＢＣ计划。"],
  [["abc"], "重跑gen-itgc后50条悬空引用清零，见２０２３年<b>ＡＢＣ</b>计划。"],
  [["データ"], "会議は三時に変更されました。<b>ﾃﾞｰﾀ</b>を確認"],
  [["ประชุม"], "การ<b>ประชุม</b>เลื่อนเป็นวันศุกร์ ม้าตัวนี้สีดำ"],
  [["변경"], "회의가 세 시로 <b>변경</b>되었습니다."],
])("marks %j in the text as it was written", (keywords, snippet) => {
  expect(db.search({ inbox }, { keywords })[0]?.snippet).toBe(snippet);
});

it("shows about as much of such a text as of one with spaces", () => {
  const long = "一二三四五六七八九十".repeat(30);
  const one = databaseOf(`${folder.path}/long.db`, [mail({ subject: "", body: `${long}会议${long}` })]);
  expect(one.search({ inbox }, { keywords: ["会议"] })[0]?.snippet).toMatch(/^\.\.\. .{19}<b>会议<\/b>.{19} \.\.\.$/);
  one.close();
});

it("finds the best match by bm25, also where every mail has the characters", () => {
  const usual = Array.from({ length: 120 }, (_, n) => mail({ body: `我们的会议记录第${n}号` }));
  const many = databaseOf(`${folder.path}/many.db`, [...usual, mail({ messageId: "rare", body: "记录了一次议会" })]);
  expect(many.search({ inbox }, { keywords: ["议会", "记录"], rank: "bm25" })[0]?.messageId).toBe("rare");
  expect(many.search({ inbox }, { keywords: ["我们"], rank: "bm25" })).toHaveLength(10);
  many.close();
});

it("takes a phrase of forty characters, and refuses a longer one", () => {
  expect(found("一".repeat(40))).toEqual([]);
  expect(() => found("一".repeat(41))).toThrow("at most 10 words");
});

it("reads a database of before, whose index has the texts as they are, as before", () => {
  const old = `${folder.path}/old.db`;
  databaseOf(old, []).close();
  const written = new Database(old);
  written.exec("UPDATE meta SET value = '1' WHERE key = 'schema_version'");
  const email = written.prepare("INSERT INTO emails VALUES (?, ?, 'x', 'bob@x.com', NULL, '{}', 'f1', '', ?)");
  written.exec("INSERT INTO addresses VALUES (1, 'bob@x.com')");
  const texts = ["周四 会议", "周四的会议", "falcon lands"];
  for (const [n, body] of texts.entries()) {
    email.run(n + 1, `<${n}>`, body);
    written.prepare("INSERT INTO timeline VALUES (?, NULL, ?)").run(n + 1, n + 1);
  }
  written.exec("INSERT INTO emails_fts (rowid, subject, body, people) SELECT * FROM indexed_emails");
  written.close();
  const before = openMailDatabase(old);
  expect(found("会议", before)).toEqual(["<0>"]);
  expect(found("周四的会议", before)).toEqual(["<1>"]);
  expect(found("Falcon", before)).toEqual(["<2>"]);
  before.close();
});
