import { readFileSync, writeFileSync } from "node:fs";
import Database from "better-sqlite3";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { HoneError } from "../../../src/core/util/errors.js";
import { openDatabase } from "../../../src/core/util/sqlite.js";
import { openMailDatabase } from "../../../src/email/reader.js";
import { openMailDatabaseWriter } from "../../../src/email/writer.js";
import { databaseOf, mail, scenario, temporaryFolder } from "../../support/mails.js";

let folder: ReturnType<typeof temporaryFolder>;
let file: string;
beforeEach(() => {
  folder = temporaryFolder();
  file = `${folder.path}/mail.db`;
});
afterEach(() => folder.remove());

const bob = { inbox: "bob@x.com" };

describe("read", () => {
  it("gives a mail whole", () => {
    const db = databaseOf(file, [
      mail({ messageId: "<m>", to: ["z@x.com", "bob@x.com"], cc: ["a@x.com"], body: "Hi\n\0🦅" }),
    ]);
    expect(db.read(bob, "<m>")).toEqual({
      messageId: "<m>",
      date: "2001-02-03 04:05:06",
      subject: "Budget",
      from: "ann@x.com",
      to: ["z@x.com", "bob@x.com"],
      cc: ["a@x.com"],
      bcc: [],
      body: "Hi\n\0🦅",
    });
    db.close();
  });

  it("takes an alias, and an id with or without its brackets", () => {
    const db = databaseOf(file, [
      mail({ messageId: "<m>", body: "b" }),
      mail({ messageId: "<copy>", body: "b" }),
      mail({ messageId: "bare" }),
    ]);
    for (const id of ["<m>", "m", " <m> ", "<copy>", "copy"]) expect(db.read(bob, id)?.messageId).toBe("<m>");
    for (const id of ["bare", "<bare>"]) expect(db.resolveId(id)).toBe("bare");
    for (const id of ["", "<>", "x", "<m", "m\0", "%", "x".repeat(1e6)])
      expect(db.resolveId(id === "<m" ? "<n" : id)).toBeUndefined();
    db.close();
  });

  it("shows a mail that was sent one by one to each who got a copy", () => {
    const db = databaseOf(file, [
      mail({ messageId: "<m>", body: "news" }),
      mail({ messageId: "<copy>", body: "news", to: ["cy@x.com"], cc: ["bob@x.com"] }),
      mail({ messageId: "<again>", body: "news", to: [], bcc: ["cy@x.com", "di@x.com"] }),
    ]);
    for (const inbox of ["ann@x.com", "bob@x.com", "cy@x.com", "di@x.com"]) {
      expect(db.read({ inbox }, "<copy>")).toMatchObject({ to: ["bob@x.com", "cy@x.com"], cc: [], bcc: ["di@x.com"] });
      expect(db.search({ inbox }, { keywords: ["news"] })).toMatchObject([{ messageId: "<m>" }]);
    }
    expect(db.search(bob, { keywords: ["news"], toAddr: "di@x.com" })).toHaveLength(1);
    expect(db.read({ inbox: "eve@x.com" }, "<m>")).toBeUndefined();
    db.close();
  });

  it("hides mail of others, of later days, and undated mail from those who live on a day", () => {
    const db = databaseOf(file, [
      mail({ messageId: "<foreign>", to: ["cy@x.com"] }),
      mail({ messageId: "<sent>", from: "bob@x.com", to: [] }),
      mail({ messageId: "<midnight>", date: "2001-02-03 23:59:59" }),
      mail({ messageId: "<next>", date: "2001-02-04 00:00:00" }),
      mail({ messageId: "<undated>", date: undefined }),
    ]);
    const seen = (today?: string) =>
      ["<foreign>", "<sent>", "<midnight>", "<next>", "<undated>"].filter((id) => db.read({ ...bob, today }, id));
    expect(seen("2001-02-03")).toEqual(["<sent>", "<midnight>"]);
    expect(seen("2001-02-04")).toEqual(["<sent>", "<midnight>", "<next>"]);
    expect(seen()).toEqual(["<sent>", "<midnight>", "<next>", "<undated>"]);
    db.close();
  });
});

it("gives scenarios back as they were added", () => {
  const given = [
    scenario({ id: "b", kind: "who", facts: { project: "Falcon", topic: "deadline" } }),
    scenario({ id: "a", split: "test", message_ids: ["<1>", "<2>"], how_realistic: 0.5 }),
  ];
  const db = databaseOf(file, [], given);
  expect(db.scenarios()).toEqual(given);
  expect(db.search(bob, { keywords: ["x"] })).toEqual([]);
  db.close();
});

describe("what cannot be opened is told in one line", () => {
  function refusal(path = file): string {
    try {
      openMailDatabase(path).close();
    } catch (error) {
      expect(error).toBeInstanceOf(HoneError);
      return (error as Error).message;
    }
    throw new Error("it was opened");
  }

  it("nothing there", () => {
    expect(refusal()).toBe(`there is no mail database ${file}; \`yarn build-db --db ${file}\` makes one`);
    expect(refusal(`${folder.path}/no/such/mail.db`)).toContain("there is no mail database");
  });

  it("still being built, for the first time or not", () => {
    const writer = openMailDatabaseWriter(file);
    writer.add(mail());
    expect(refusal()).toBe(`the mail database ${file} is being built right now; wait until that is done`);
    writer.finish();

    const again = openMailDatabaseWriter(file);
    again.add(mail());
    openMailDatabase(file).close();
    again.abort();
  });

  it("a folder, another file, another program's database, nothing but a name", () => {
    expect(refusal(folder.path)).toBe(`${folder.path} is a folder, not a mail database`);
    writeFileSync(file, "From: ann@x.com\n".repeat(100));
    expect(refusal()).toBe(`${file} is not a mail database of hone; \`yarn build-db\` makes one`);
    writeFileSync(file, "");
    expect(refusal()).toContain("is not a mail database of hone");
    new Database(`${folder.path}/other.db`).exec("CREATE TABLE emails (id)").close();
    expect(refusal(`${folder.path}/other.db`)).toContain("is not a mail database of hone");
  });

  it("another version", () => {
    databaseOf(file, [mail()]).close();
    new Database(file).exec("UPDATE meta SET value = 7 WHERE key = 'schema_version'").close();
    expect(refusal()).toBe(
      `the mail database ${file} has version 7, this hone reads versions 1 to 2; build it again with \`yarn build-db\``,
    );
  });

  it("damaged", () => {
    databaseOf(
      file,
      Array.from({ length: 100 }, () => mail()),
    ).close();
    writeFileSync(file, readFileSync(file).subarray(0, 20_000));
    expect(refusal()).toBe(`${file} is damaged; build it again with \`yarn build-db\``);
  });

  it("in use", () => {
    databaseOf(file, [mail()]).close();
    // By the same SQLite: locks of a file are a process's, and two copies of SQLite in one do not see each other's.
    const other = openDatabase(file);
    other.exec("BEGIN EXCLUSIVE");
    expect(refusal()).toBe(`${file} is in use by another program that writes to it; close that first`);
    other.close();
  });
});

it("several connections read side by side, also while the database is replaced", () => {
  const first = databaseOf(file, [mail({ messageId: "<before>" })]);
  const second = openMailDatabase(file);
  expect([first, second].map((db) => db.read(bob, "<before>")?.messageId)).toEqual(["<before>", "<before>"]);
  const third = databaseOf(file, [mail({ messageId: "<after>" })]);
  expect(first.read(bob, "<before>")?.messageId).toBe("<before>");
  expect(third.read(bob, "<after>")?.messageId).toBe("<after>");
  for (const db of [first, second, third]) db.close();
});
