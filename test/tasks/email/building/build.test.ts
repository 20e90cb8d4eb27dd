/** A build is whole or leaves nothing: every way it can fail, and the count of every message. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterEach, beforeEach, expect, test } from "vitest";
import { HoneError } from "../../../../src/core/util/errors.js";
import { type BuildOptions, type BuildSource, buildMailDatabase } from "../../../../src/email/building/build.js";
import { type MailDatabaseWriter, openMailDatabaseWriter } from "../../../../src/email/writer.js";

let folder: string;
let db: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-build-"));
  mkdirSync(join(folder, "out"));
  db = join(folder, "out/mail.db");
});
afterEach(() => rmSync(folder, { recursive: true }));

function write(name: string, content: string): string {
  const path = join(folder, name);
  mkdirSync(join(path, ".."), { recursive: true });
  writeFileSync(path, content);
  return path;
}

const noRules = { maxBody: 0, maxRecipients: 0, oneEvidence: false, dropKnownBad: false };
const mail = (paths: string[], questions: string[] = [], rules = noRules): BuildSource => ({
  kind: "mail",
  paths,
  questions,
  rules,
});
const synthetic = { kind: "synthetic" as const, seed: 1, mailboxes: 20 } satisfies BuildSource;

const row = (message_id: string | null, body: string, more: object = {}) =>
  JSON.stringify({ message_id, from: "a@x.org", to: ["b@x.org"], subject: "s", body, ...more });

/** Sums up what a summary promises to sum up. */
const counted = (summary: { imported: number; duplicates: number; skipped: object }) =>
  summary.imported + summary.duplicates + Object.values(summary.skipped).reduce((sum, n) => sum + n, 0);

const build = (source: BuildSource, more: Partial<BuildOptions> = {}) => buildMailDatabase({ db, source, ...more });
const ids = () => {
  const opened = new Database(db, { readonly: true });
  const found = opened.prepare("SELECT message_id FROM emails ORDER BY id").pluck().all();
  opened.close();
  return found as string[];
};

test("every message is counted once, whatever becomes of it", async () => {
  const path = write(
    "mail.jsonl",
    [
      row("<1@x>", "one"),
      row("<2@x>", "one"),
      row("<1@x>", "one"),
      row("<1@x>", "not one"),
      row("<1@x>", "not one"),
      row(null, "no id"),
      row(null, "no id"),
      row("<3@x>", "long".repeat(10)),
      "{}",
    ].join("\n"),
  );
  const summary = await build(mail([path], [], { ...noRules, maxBody: 30 }));
  expect(summary).toMatchObject({
    read: 9,
    imported: 3,
    duplicates: 4,
    skipped: { body_too_long: 1, bad_row: 1 },
    derived_ids: { no_message_id: 1, id_taken: 1 },
    undated: 3,
    scenarios: { train: 0, test: 0 },
    examples: { body_too_long: path, bad_row: path },
    db,
  });
  expect(counted(summary)).toBe(summary.read);
  expect(ids()).toEqual([
    "<1@x>",
    expect.stringMatching(/@derived\.hone>$/),
    expect.stringMatching(/@derived\.hone>$/),
  ]);
});

test("the same input gives the same database, ids made up included", async () => {
  const path = write("mail.jsonl", [row("<1@x>", "a"), row("<1@x>", "b"), row(null, "c")].join("\n"));
  await build(mail([path]));
  const first = ids();
  await build(mail([path]));
  expect(ids()).toEqual(first);
});

test("questions are kept when their mail is there, also as a folded copy, and their inbox sees it; else counted", async () => {
  const question = { question: "q", answer: "a", inbox_address: "b@x.org", query_date: "2001-01-01" };
  const asked = [
    { ...question, id: 1, message_ids: ["<1@x>"] },
    { ...question, id: 2, message_ids: ["<copy@x>"], split: "test" },
    { ...question, id: 3, message_ids: ["2@x"] },
    { ...question, id: 4, message_ids: ["<1@x>", "<9@x>"] },
    { ...question, id: 5, message_ids: ["<1@x>"], inbox_address: "c@x.org" },
    { ...question, id: 6, message_ids: ["<1@x>"], query_date: "2000-12-31" },
    { ...question, id: 7, message_ids: ["<1@x>"], inbox_address: "An <A@x.org>" },
    { ...question, id: 8, message_ids: ["<undated@x>"] },
    { ...question, id: 9, message_ids: ["<1@x>"], inbox_address: "d@x.org" },
  ];
  const day = { date: "2001-01-01T12:00:00Z" };
  const mails = [row("<1@x>", "one", day), row("<copy@x>", "one", { ...day, to: "d@x.org" }), row("<2@x>", "two", day)];
  const path = write("mail.jsonl", [...mails, row("<undated@x>", "three")].join("\n"));
  const questions = write("questions.jsonl", asked.map((each) => JSON.stringify(each)).join("\n"));
  const summary = await build(mail([path], [questions]));
  expect(summary.scenarios).toEqual({ train: 4, test: 1 });
  expect(summary.questions).toEqual({ read: 9, kept: 5, dropped: { missing_evidence: 1, hidden_evidence: 3 } });
  const opened = new Database(db, { readonly: true });
  expect(opened.prepare("SELECT message_ids FROM scenarios WHERE id = 'enron-3'").pluck().get()).toBe('["<2@x>"]');
  opened.close();
});

test("the synthetic mailbox, with progress", async () => {
  const seen: string[] = [];
  const summary = await build(synthetic, { onProgress: ({ phase, share }) => seen.push(`${phase} ${share}`) });
  expect(summary).toMatchObject({ duplicates: 0, skipped: {}, scenarios: { train: 160, test: 40 } });
  expect(summary.imported).toBe(summary.read);
  expect(ids()).toHaveLength(summary.imported);
  expect(seen[0]).toBe("reading 0.05");
  expect(seen.at(-1)).toBe("indexing 1");
});

/** An old database, and a check that it is as it was and alone. */
async function withOldDatabase(): Promise<() => void> {
  await build({ ...synthetic, mailboxes: 1 });
  const before = readFileSync(db);
  return () => {
    expect(readdirSync(join(folder, "out"))).toEqual(["mail.db"]);
    expect(readFileSync(db).equals(before)).toBe(true);
  };
}

test("an interrupted build leaves the old database and nothing else, while reading and while indexing", async () => {
  const unchanged = await withOldDatabase();
  for (const stopAt of ["reading", "indexing"]) {
    const controller = new AbortController();
    const result = build(synthetic, {
      signal: controller.signal,
      onProgress: ({ phase }) => {
        if (phase === stopAt) controller.abort(new HoneError("interrupted"));
      },
    });
    await expect(result).rejects.toThrow("interrupted");
    unchanged();
  }
  const path = write("mail.jsonl", Array.from({ length: 5000 }, (_, i) => row(`<${i}@x>`, `${i}`)).join("\n"));
  await expect(build(mail([path]), { signal: AbortSignal.abort(new HoneError("interrupted")) })).rejects.toThrow(
    "interrupted",
  );
  unchanged();
});

test("so does a disk that fills up", async () => {
  const unchanged = await withOldDatabase();
  const full = (file: string): MailDatabaseWriter => {
    const writer = openMailDatabaseWriter(file);
    let left = 30;
    return {
      add: (each) => {
        if (left-- > 0) return writer.add(each);
        throw new HoneError(`the mail database ${file} cannot be written: database or disk is full`);
      },
      addScenarios: (scenarios) => writer.addScenarios(scenarios),
      hasMessage: (id) => writer.hasMessage(id),
      isSeenBy: (question, id) => writer.isSeenBy(question, id),
      finish: () => writer.finish(),
      finishing: () => writer.finishing(),
      abort: () => writer.abort(),
    };
  };
  await expect(build(synthetic, { openWriter: full })).rejects.toThrow("disk is full");
  unchanged();
});

test("so does mail that is not there, holds nothing, or breaks off in the middle", async () => {
  const unchanged = await withOldDatabase();
  mkdirSync(join(folder, "empty"));
  const png = write("pictures/logo.png", "\u0089PNG");
  const good = write("good.jsonl", row("<1@x>", "x"));
  const cut = write("cut.parquet", "PAR1 and nothing");
  await expect(build(mail([join(folder, "nowhere")]))).rejects.toThrow(/nowhere is not there$/);
  await expect(build(mail([join(folder, "empty")]))).rejects.toThrow(/no mail found in .*empty$/);
  await expect(build(mail([join(folder, "pictures")]))).rejects.toThrow(
    `no mail found in ${join(folder, "pictures")}; skipped: 1 not_mail (${png})`,
  );
  await expect(build(mail([good, cut]))).rejects.toThrow(/cut\.parquet is no whole Parquet file/);
  await expect(build(mail([good], [join(folder, "nowhere")]))).rejects.toThrow(/nowhere is not there$/);
  unchanged();
});

test("a target that is no mail database is left alone; folders on the way to a new one are made", async () => {
  const notes = write("notes.txt", "mine");
  const foreign = join(folder, "foreign.db");
  const other = new Database(foreign);
  other.exec("CREATE TABLE mine (x)");
  other.close();
  for (const target of [notes, foreign]) {
    await expect(build(synthetic, { db: target })).rejects.toThrow(/is there and is no mail database/);
  }
  expect(readFileSync(notes, "utf8")).toBe("mine");
  await expect(build(synthetic, { db: folder })).rejects.toThrow(/is a folder/);
  await expect(build(synthetic, { db: join(notes, "mail.db") })).rejects.toThrow(/notes\.txt/);
  const deep = join(folder, "new/and/deep/mail.db");
  expect((await build({ ...synthetic, mailboxes: 1 }, { db: deep })).db).toBe(deep);
});

test("a database that is open elsewhere can be replaced: its reader keeps the old one", async () => {
  await build({ ...synthetic, mailboxes: 1 });
  const reader = new Database(db, { readonly: true });
  const count = () => reader.prepare("SELECT count(*) FROM emails").pluck().get();
  const before = count();
  await build({ ...synthetic, mailboxes: 2 });
  expect(count()).toBe(before);
  reader.close();
  expect(ids().length).toBeGreaterThan(before as number);
});
