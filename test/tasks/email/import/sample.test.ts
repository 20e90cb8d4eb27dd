/**
 * Every note of the sample's README on the files themselves, and the tools on a database of them: what can be found, and what must
 * not be. Where the README's own count is of a slightly larger set, the count here is the one of these files, taken from the raw bytes.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, beforeAll, expect, test } from "vitest";
import { measureSearchQuality } from "../../../../bench/mail/search-quality.js";
import { type BuildSummary, buildMailDatabase } from "../../../../src/email/building/build.js";
import { readMessage } from "../../../../src/email/import/message.js";
import { questionReader } from "../../../../src/email/import/questions.js";
import type { Mail } from "../../../../src/email/mail.js";
import {
  allQuestions,
  coveredQuestions,
  describeSample,
  filesOf,
  importedMails,
  maildirArchive,
  mboxArchive,
  type RawMessage,
  rawMessages,
} from "../../../support/enron-sample.js";
import { expectTeeth, MANY, playHostileCalls } from "../../../support/hostile-calls.js";

const header = (raw: RawMessage, name: string) =>
  new RegExp(`^${name}:((?:[^\\n]*)(?:\\n[ \\t][^\\n]*)*)`, "m").exec(raw.header)?.[1];

describeSample("real mail: what the README of the sample says", () => {
  let maildir: Mail[];
  let mbox: Mail[];
  /** Both, in the order of the archives. */
  let mails: Mail[];
  let raw: RawMessage[];
  let folder: string;
  let file: string;
  let db: Database.Database;
  let summary: BuildSummary;

  const distinct = (list: readonly Mail[], key: (mail: Mail) => unknown[]) =>
    new Set(list.map((mail) => JSON.stringify(key(mail)))).size;
  const where = (holds: (raw: RawMessage) => boolean) =>
    raw.flatMap((message, index) => (holds(message) ? [{ raw: message, mail: mails[index] as Mail }] : []));

  beforeAll(async () => {
    maildir = await importedMails(maildirArchive);
    mbox = await importedMails(mboxArchive);
    mails = [...maildir, ...mbox];
    raw = [...rawMessages(maildirArchive), ...rawMessages(mboxArchive)];
    folder = mkdtempSync(join(tmpdir(), "hone-sample-"));
    file = join(folder, "mail.db");
    summary = await buildMailDatabase({
      db: file,
      source: {
        kind: "mail",
        paths: [maildirArchive, mboxArchive],
        questions: [coveredQuestions],
        rules: { maxBody: 0, maxRecipients: 0, oneEvidence: false, dropKnownBad: false },
      },
    });
    db = new Database(file, { readonly: true });
  });

  afterAll(() => {
    db?.close();
    if (folder) rmSync(folder, { recursive: true });
  });

  test("8,586 messages in the maildirs and 11,489 in 56 mbox files, each with an id of one form", () => {
    expect([maildir.length, mbox.length]).toEqual([8586, 11_489]);
    const ofOwner = (owner: string) => maildir.filter(({ fileName }) => fileName.includes(`.tar.gz/${owner}/`)).length;
    expect([ofOwner("allen-p"), ofOwner("arnold-j"), ofOwner("arora-h")]).toEqual([3034, 4898, 654]);
    const files = new Set(mbox.map(({ fileName }) => fileName));
    expect(files.size).toBe(56);
    const kaminski = mbox.filter(({ fileName }) => fileName.includes("/enron.kaminski-v."));
    expect([kaminski.length, new Set(kaminski.map(({ fileName }) => fileName)).size]).toEqual([7022, 49]);
    expect(mails.filter(({ messageId }) => !/^<\d+\.\d+\.JavaMail\.evans@thyme>$/.test(messageId))).toHaveLength(0);
  });

  test("the build counts every message once: 20,075 read, 14,958 of them different mails", () => {
    expect(summary).toMatchObject({ read: 20_075, imported: 14_958, duplicates: 5117, skipped: {} });
    expect(distinct(mails, ({ from, subject, body }) => [from, subject, body])).toBe(summary.imported);
    expect(summary.derived_ids).toEqual({ no_message_id: 0, id_taken: 0 });
    expect(db.prepare("SELECT count(*) FROM emails").pluck().get()).toBe(14_958);
  });

  test("same message, many ids: the maildirs hold 4,474 by sender, date, subject and body, folded to 4,443 without the date", () => {
    expect(distinct(maildir, ({ from, date, subject, body }) => [from, date, subject, body])).toBe(4474);
    expect(distinct(maildir, ({ from, subject, body }) => [from, subject, body])).toBe(4443);
    const byEitherId = db
      .prepare("SELECT (SELECT count(*) FROM emails) + (SELECT count(*) FROM message_aliases)")
      .pluck();
    expect(byEitherId.get()).toBe(distinct(mails, ({ messageId }) => [messageId]));
  });

  test("same id twice: all 814 of enron.arnold-j._sent_mail are in the maildir too, word for word", () => {
    const byId = new Map(maildir.map((mail) => [mail.messageId, mail]));
    const sent = mbox.filter(({ fileName }) => fileName.endsWith("/enron.arnold-j._sent_mail"));
    expect(sent).toHaveLength(814);
    for (const { fileName: _, ...mail } of sent) expect(byId.get(mail.messageId)).toMatchObject(mail);
  });

  test("125 covered questions become scenarios (train 107, test 18); of all 2,886 no others have their evidence here", async () => {
    expect(summary.scenarios).toEqual({ train: 107, test: 18 });
    expect(summary.questions).toEqual({ read: 125, kept: 125, dropped: {} });
    const ids = new Set(mails.map(({ messageId }) => messageId));
    const reader = questionReader({ oneEvidence: true, dropKnownBad: true });
    const kept = await reader.read(allQuestions, {
      storedId: (id) => (ids.has(id) ? id : undefined),
      isSeenBy: () => true,
    });
    expect(kept.map(({ split }) => split).filter((split) => split === "train")).toHaveLength(88);
    expect(reader.counts).toEqual({
      read: 2886,
      kept: 105,
      dropped: { several_evidence: 637, missing_evidence: 2144 },
    });
  });

  test("the inbox is an address, not a folder: vince.kaminski@enron.com has part in all 130 evidence mails", () => {
    const lines = readFileSync(coveredQuestions, "utf8").trim().split("\n");
    const ids = new Set(lines.flatMap((line) => JSON.parse(line).message_ids as string[]));
    const evidence = mails.filter(({ messageId }) => ids.has(messageId));
    expect(evidence).toHaveLength(130);
    const elsewhere = evidence.filter(({ fileName }) => /lavorato-j|kitchen-l|whalley-g/.test(fileName));
    expect(elsewhere).toHaveLength(8);
    for (const { from, to, cc } of evidence) expect([from, ...to, ...cc]).toContain("vince.kaminski@enron.com");
  });

  test("line ends: CRLF, as in the original release, gives the same mails as LF", async () => {
    const files = [...filesOf(maildirArchive)].filter(({ path }) => path.startsWith("arora-h/"));
    expect(files).toHaveLength(654);
    for (const { path, bytes } of files) {
      const crlf = Buffer.from(bytes.toString("latin1").replaceAll("\n", "\r\n"), "latin1");
      expect(await readMessage(crlf, path)).toEqual(await readMessage(bytes, path));
    }
  });

  test("mbox: the From line is not the message's, and >From in a body is undone; maildir bodies are as they are", () => {
    const escaped = where(({ path, body }) => path.startsWith("enron.") && /^>From /m.test(body));
    expect(escaped).toHaveLength(119);
    for (const { mail } of escaped) {
      expect(mail.body).toMatch(/^From /m);
      expect(mail.body).not.toMatch(/^>From /m);
    }
    expect(where(({ path, body }) => !path.startsWith("enron.") && /^From /m.test(body))).toHaveLength(59);
    expect(mails.filter(({ date }) => date?.startsWith("2022"))).toHaveLength(0);
  });

  test("quoted-printable is decoded in the messages that say so", () => {
    const quoted = where((message) => /quoted-printable/.test(header(message, "Content-Transfer-Encoding") ?? ""));
    expect(quoted).toHaveLength(757);
    const marked = quoted.filter(({ raw }) => /=[0-9A-F]{2}|=\n/.test(raw.body));
    expect(marked.length).toBeGreaterThan(500);
    // What is left of "=" is text: the marks themselves were =3D.
    for (const { raw, mail } of marked) {
      const literal = raw.body.match(/=3D/g)?.length ?? 0;
      expect(mail.body.match(/=(?:20|09|\n)/g)?.length ?? 0).toBeLessThanOrEqual(literal);
    }
  });

  test("leftover quoted-printable marks in 7bit bodies stay: nobody can tell them from text", () => {
    const leftover = where(
      (message) =>
        /7bit/.test(header(message, "Content-Transfer-Encoding") ?? "") && /=(?:20|09|\n)/.test(message.body),
    );
    expect(leftover).toHaveLength(356);
    for (const { raw, mail } of leftover) {
      expect(mail.body).toBe(raw.body.replace(/^>(>*From )/gm, "$1").replace(/\n+$/, ""));
    }
  });

  test("raw Latin-1 bytes in headers are read as such", () => {
    const latin = where(({ header: text }) => /[\x80-\xff]/.test(text));
    expect(latin).toHaveLength(2);
    expect(latin.flatMap(({ mail }) => [...mail.to, ...mail.cc])).toContain("rené.lazure@enron.com");
    expect(mails.filter((mail) => JSON.stringify(mail).includes("\uFFFD"))).toHaveLength(0);
  });

  test("dates are moments in UTC; 31 December 1979, 16:00 -0800 is none", () => {
    const none = where((message) => /Mon, 31 Dec 1979 16:00:00 -0800/.test(header(message, "Date") ?? ""));
    expect(none).toHaveLength(31);
    expect(none.filter(({ mail }) => mail.date !== undefined)).toHaveLength(0);
    const dated = mails.flatMap(({ date }) => date ?? []).sort();
    expect(dated).toHaveLength(20_075 - 31);
    expect([dated[0], dated.at(-1)]).toEqual(["1999-07-02 10:34:00", "2002-01-30 23:00:01"]);
    const pacific = where((message) => /-0[78]00 \(P[DS]T\)/.test(header(message, "Date") ?? ""));
    expect(pacific).toHaveLength(20_075);
    for (const { raw, mail } of pacific.slice(0, 500)) {
      const sent = new Date(header(raw, "Date") ?? "").toISOString();
      if (mail.date) expect(mail.date).toBe(sent.slice(0, 19).replace("T", " "));
    }
  });

  test("folded headers are one line again, however many recipients they hold", () => {
    const folded = (name: string) => where((message) => /\n[ \t]/.test(header(message, name) ?? ""));
    expect([folded("To").length, folded("Subject").length]).toEqual([1586, 661]);
    expect(mails.filter(({ subject }) => /[\t\n]|^ | $/.test(subject))).toHaveLength(0);
    for (const { raw, mail } of folded("Subject")) {
      if (!raw.header.includes("=?")) expect(mail.subject).toBe(header(raw, "Subject")?.replace(/\s+/g, " ").trim());
    }
    expect(Math.max(...mails.map(({ to }) => to.length))).toBeGreaterThan(500);
  });

  test("no To: addresses of X-To are taken, names in it are not", () => {
    const none = where((message) => header(message, "To") === undefined);
    expect(none).toHaveLength(598);
    const alone = none.filter(({ raw }) => header(raw, "Cc") === undefined);
    expect(alone).toHaveLength(532);
    const helped = alone.filter(({ mail }) => mail.to.length > 0);
    expect(helped).toHaveLength(4);
    for (const { raw, mail } of helped) {
      for (const address of mail.to) expect(header(raw, "X-To")?.toLowerCase()).toContain(address);
    }
    const named = alone.filter(({ raw }) => /Vince J Kaminski@ECT/.test(header(raw, "X-To") ?? ""));
    expect(named.length).toBeGreaterThan(0);
    for (const { mail } of named) expect(mail.to).toEqual([]);
  });

  test("Bcc repeats Cc and is never a blind copy", () => {
    const both = where((message) => header(message, "Bcc") !== undefined);
    expect(both).toHaveLength(4579);
    for (const { raw } of both) expect(header(raw, "Bcc")).toBe(header(raw, "Cc"));
    expect(mails.filter(({ bcc }) => bcc.length > 0)).toHaveLength(0);
    expect(both.filter(({ mail }) => mail.cc.length === 0).length).toBeLessThan(5);
  });

  test("an empty subject is empty, no body is", () => {
    const empty = where((message) => header(message, "Subject")?.trim() === "");
    expect(empty).toHaveLength(2544);
    expect(mails.filter(({ subject }) => subject === "")).toHaveLength(2544);
    expect(mails.filter(({ body }) => body.trim() === "")).toHaveLength(0);
  });

  test("bracketed, broken and repeated addresses: what is an address stays, each once", () => {
    const people = new Set(mails.flatMap(({ from, to, cc }) => [from, ...to, ...cc]));
    for (const address of [
      "k..allen@enron.com",
      ".palmer@enron.com",
      ".ward@enron.com",
      "#2.martin@enron.com",
      "grant.masson.@enron.com",
      "michael.enbar@enron.com",
      "the.desk@enron.com",
      "thomas.perkins@enron.com",
      "sbigalow@enron.com",
      "d'arcy.carroll@enron.com",
      "patricia_szmolyan@scotia_mcleod.com",
    ]) {
      expect(people).toContain(address);
    }
    expect([...people].filter((address) => !/^[^\s<>"]+@[^\s<>"@]+$/.test(address))).toHaveLength(0);
    expect(mails.filter(({ to, cc }) => new Set(to).size < to.length || new Set(cc).size < cc.length)).toHaveLength(0);
    expect(mails.filter(({ from }) => from === "")).toHaveLength(0);
  });

  test("a header broken by a blank line ends there: its rest is body, nothing is lost", () => {
    const calendar = mbox.filter(({ fileName }) => fileName.endsWith("/enron.kaminski-v.calendar"));
    const [eighth, twentyNinth] = [calendar[7] as Mail, calendar[28] as Mail];
    expect(eighth.subject).toBe("Austin - UT Presentation to MBA class");
    expect(eighth.body).toMatch(/^Pre-interview reception -\n Cindy Justice\nMime-Version: 1\.0\n/);
    expect(eighth.from).toBe("rumaldo.lopez@enron.com");
    expect(twentyNinth.subject).toBe("Rice University Spring 2002 - Electives Preview, November 12");
    expect(twentyNinth.body).toContain("X-Origin: KAMINSKI-V");
    expect(where((message) => header(message, "X-Origin") === undefined)).toHaveLength(2);
  });

  test("the owner is in the path, whatever X-Origin says", () => {
    const lavorato = where((message) => /Lavorado/i.test(header(message, "X-Origin") ?? ""));
    expect(lavorato.length).toBeGreaterThan(0);
    for (const { mail } of lavorato) expect(mail.fileName).toMatch(/\/enron\.lavorato-j\./);
  });

  test("every question's evidence may be read, and good words find it", () => {
    const quality = measureSearchQuality(file);
    expect(quality).toMatchObject({ questions: 125, readable: 125 });
    // Measured with plain SQLite, before there were tools: 35, 123, 120.
    expect(quality.all_words).toBeGreaterThanOrEqual(35);
    expect(quality.best_words).toBeGreaterThanOrEqual(123);
    expect(quality.any_word_bm25).toBeGreaterThanOrEqual(120);
    expect(quality.any_word_newest).toBeGreaterThanOrEqual(4);
  });

  test("hostile calls show nothing that is foreign or later", () => {
    const askers = [
      { inbox_address: "vince.kaminski@enron.com", query_date: "2001-05-10" },
      { inbox_address: "vince.kaminski@enron.com", query_date: "2000-03-01" },
      { inbox_address: "john.arnold@enron.com", query_date: "2001-01-15" },
      { inbox_address: "phillip.allen@enron.com", query_date: "2002-12-31" },
      { inbox_address: "nobody@enron.com", query_date: "2002-12-31" },
    ];
    expectTeeth(playHostileCalls(file, askers, MANY, "date"));
    expectTeeth(playHostileCalls(file, askers, MANY / 10, "bm25"));
  });
});
