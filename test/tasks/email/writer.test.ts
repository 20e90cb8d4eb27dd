import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, test } from "vitest";
import { derivedId, type Mail } from "../../../src/email/mail.js";
import { openMailDatabaseWriter } from "../../../src/email/writer.js";
import { mail as anyMail, scenario } from "../../support/mails.js";

let folder: string;
let file: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-writer-"));
  file = join(folder, "mail.db");
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const mail = (over: Partial<Mail> = {}) =>
  anyMail({ messageId: "<1@x>", body: "The budget is 5.", fileName: "ann/1", ...over });

function rows(sql: string): unknown[] {
  const db = new Database(file, { readonly: true });
  try {
    return db.prepare(sql).all();
  } finally {
    db.close();
  }
}

test("a mail arrives whole: header order of recipients, unknown date as NULL", () => {
  const writer = openMailDatabaseWriter(file);
  expect(writer.add(mail({ to: ["z@x", "b@x"], cc: ["c@x"], bcc: ["z@x"], date: undefined }))).toBe("imported");
  writer.finish();
  expect(rows("SELECT message_id, subject, from_address, date, body, file_name FROM emails")).toEqual([
    {
      message_id: "<1@x>",
      subject: "Budget",
      from_address: "ann@x.com",
      date: null,
      body: "The budget is 5.",
      file_name: "ann/1",
    },
  ]);
  expect(rows("SELECT recipient_address || ' ' || recipient_type AS r FROM recipients")).toEqual([
    { r: "z@x to" },
    { r: "b@x to" },
    { r: "c@x cc" },
    { r: "z@x bcc" },
  ]);
});

test("copies of subject, body and sender are folded into the first, and stay findable by their ids", () => {
  const writer = openMailDatabaseWriter(file);
  expect(writer.add(mail())).toBe("imported");
  expect(writer.add(mail({ messageId: "<2@x>", date: "2002-01-01 00:00:00" }))).toBe("duplicate");
  expect(writer.add(mail({ messageId: "<3@x>", subject: "Budge", body: "tThe budget is 5." }))).toBe("imported");
  expect(writer.add(mail({ messageId: "<1@x>", body: "another mail with a known id" }))).toBe("id_taken");
  expect(writer.hasMessage("<1@x>")).toBe(true);
  expect(writer.hasMessage("<2@x>")).toBe(true);
  expect(writer.hasMessage("<4@x>")).toBe(false);
  writer.finish();
  expect(rows("SELECT message_id FROM emails ORDER BY id")).toEqual([
    { message_id: "<1@x>" },
    { message_id: "<3@x>" },
    { message_id: expect.stringMatching(/@derived\.hone>$/) },
  ]);
  expect(rows("SELECT * FROM message_aliases")).toEqual([{ alias: "<2@x>", message_id: "<1@x>" }]);
});

test("a mail without an id is imported beside one that has the id derived of it, with another text", () => {
  const writer = openMailDatabaseWriter(file);
  const messageId = derivedId(mail());
  expect(writer.add(mail({ messageId, body: "The budget" }))).toBe("imported");
  expect(writer.add(mail({ messageId }))).toBe("id_taken");
  writer.finish();
  expect(rows("SELECT body FROM emails ORDER BY id")).toEqual([{ body: "The budget" }, { body: "The budget is 5." }]);
});

test("scenarios keep their order; an id given twice is refused in one line", () => {
  const writer = openMailDatabaseWriter(file);
  writer.addScenarios([scenario({ id: "b", kind: "who" }), scenario({ id: "a", how_realistic: 0.5 })]);
  writer.finish();
  expect(rows("SELECT id, kind, how_realistic FROM scenarios ORDER BY rowid")).toEqual([
    { id: "b", kind: "who", how_realistic: null },
    { id: "a", kind: null, how_realistic: 0.5 },
  ]);

  const second = openMailDatabaseWriter(file);
  second.addScenarios([scenario()]);
  expect(() => second.addScenarios([scenario()])).toThrow("two questions have the id 1; each needs its own");
  expect(rows("SELECT id FROM scenarios ORDER BY rowid")).toHaveLength(2);
});

test("an aborted or unfinished build leaves the old database, byte for byte, and no file of its own", () => {
  const first = openMailDatabaseWriter(file);
  first.add(mail());
  first.finish();
  const before = readFileSync(file);

  const second = openMailDatabaseWriter(file);
  second.add(mail({ messageId: "<9@x>", body: "new" }));
  expect(readFileSync(file).equals(before)).toBe(true);
  second.abort();
  second.abort();
  expect(readFileSync(file).equals(before)).toBe(true);
  expect(readdirSync(folder)).toEqual(["mail.db"]);
  expect(() => second.add(mail())).toThrow("closed");
});

test("what a killed build left is cleared by the next; a build that still runs is not touched", () => {
  writeFileSync(`${file}.building-dead0000`, "half a database");
  const running = openMailDatabaseWriter(file);
  const [own] = readdirSync(folder);
  expect(readdirSync(folder)).toHaveLength(1);
  expect(own).toMatch(/^mail\.db\.building-/);

  const other = openMailDatabaseWriter(file);
  expect(existsSync(join(folder, own ?? ""))).toBe(true);
  other.add(mail());
  other.finish();
  running.add(mail({ messageId: "<2@x>" }));
  running.finish();
  expect(rows("SELECT message_id FROM emails")).toEqual([{ message_id: "<2@x>" }]);
  expect(readdirSync(folder)).toEqual(["mail.db"]);
});

test("a folder that cannot be written is one clear line", () => {
  writeFileSync(join(folder, "file"), "");
  expect(() => openMailDatabaseWriter(join(folder, "file", "mail.db"))).toThrow(
    /^the mail database .* cannot be written/,
  );
});
