/**
 * Builds a mail database: takes mails in any order, folds duplicates, then orders the mails by time and indexes them in
 * one pass. The database appears in its place only when complete: an interrupted or failed build leaves the old one
 * unchanged. Memory is constant except for about 250 bytes per mail.
 */
import { hash } from "node:crypto";
import { rmSync } from "node:fs";
import { resolve } from "node:path";
import type Database from "better-sqlite3";
import { HoneError, messageOf } from "../core/util/errors.js";
import { flush, moveDurably } from "../core/util/files.js";
import { lockExclusively } from "../core/util/lock.js";
import { openDatabase } from "../core/util/sqlite.js";
import { newBuildFile } from "./build-file.js";
import { derivedId, type Mail } from "./mail.js";
import type { EmailScenario } from "./scenario.js";
import { applicationId, indexes, pageSize, schemaVersion, tables } from "./schema.js";
import { bareAddress } from "./search.js";
import { indexedText, isUnspaced } from "./words.js";

/** Progress of indexing, in mails. */
export interface IndexingProgress {
  readonly done: number;
  readonly total: number;
}

/** Result of adding a mail; "id_taken": it is imported under another id than its own. */
export type Added = "imported" | "duplicate" | "id_taken";

export type MailDatabaseWriter = ReturnType<typeof writerOf>;

/** Mails indexed between two reports of progress. */
const INDEX_STEP = 2000;

/**
 * Starts a database that will become `file`. Creates missing folders.
 *
 * @throws HoneError when nothing can be written there; so do all methods when the disk is full or fails
 */
export function openMailDatabaseWriter(file: string): MailDatabaseWriter {
  try {
    return writerOf(file);
  } catch (error) {
    throw cannotWrite(file, error);
  }
}

function cannotWrite(file: string, cause: unknown): HoneError {
  return new HoneError(`the mail database ${file} cannot be written: ${messageOf(cause)}`, { cause });
}

function openEmpty(path: string): Database.Database {
  const db = openDatabase(path);
  db.pragma(`page_size = ${pageSize}`);
  db.pragma(`application_id = ${applicationId}`);
  // No journal on disk: an unfinished file is discarded after a crash.
  db.pragma("journal_mode = MEMORY");
  db.pragma("synchronous = OFF");
  db.pragma("foreign_keys = OFF");
  db.pragma("locking_mode = EXCLUSIVE");
  db.pragma("cache_size = -65536");
  // The lock shows other builds that this file is in use; it is also the transaction of the whole build.
  if (!lockExclusively(db)) throw new HoneError(`another process has ${path} open`);
  db.exec(tables);
  // Mail whose text is not indexed as it is; a call for every mail would take time from all others.
  db.exec("CREATE TEMP TABLE unspaced (id INTEGER PRIMARY KEY)");
  db.function("indexed_text", { deterministic: true }, (text) => indexedText(text as string));
  return db;
}

function prepare(db: Database.Database) {
  return {
    email: db.prepare("INSERT INTO emails VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"),
    address: db.prepare("INSERT INTO addresses VALUES (?, ?)"),
    alias: db.prepare("INSERT INTO message_aliases SELECT ?, message_id FROM emails WHERE id = ?"),
    people: db.prepare("SELECT people FROM emails WHERE id = ?").pluck(),
    recipients: db.prepare("SELECT recipients FROM emails WHERE id = ?").pluck(),
    readdress: db.prepare("UPDATE emails SET recipients = ?, people = ? WHERE id = ?"),
    position: db.prepare("INSERT INTO timeline VALUES (?, ?, ?)"),
    unspaced: db.prepare("INSERT INTO unspaced VALUES (?)"),
    scenario: db.prepare("INSERT INTO scenarios VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"),
    meta: db.prepare("INSERT INTO meta VALUES (?, ?)"),
    hasScenario: db.prepare("SELECT 1 FROM scenarios WHERE id = ?").pluck(),
  };
}

/** SQLite has U+FFFD in the place of unpaired surrogates. */
const asStored = (id: string) => Buffer.from(id).toString();

function writerOf(file: string) {
  const building = newBuildFile(file);
  const db = openEmpty(building);
  const sql = prepare(db);
  let open = true;
  /** Ids of mails, by their message ids and those of copies, and by hashes of their content. */
  const byMessageId = new Map<string, number>();
  const byContent = new Map<string, number>();
  const addresses = new Map<string, number>();
  /** Dates in order of arrival, from mail 1 on. */
  const dates: (string | undefined)[] = [];

  /** Deletes the unfinished database; the old one stays. Does nothing after the end of {@link finishing}, or after itself. */
  function abort(): void {
    if (!open) return;
    open = false;
    db.close();
    rmSync(building, { force: true });
  }

  /** A step of the build. An error (a full disk, for example) ends the build with one line. */
  const step =
    <Given extends unknown[], T>(work: (...given: Given) => T) =>
    (...given: Given): T => {
      if (!open) throw new Error("the mail database writer is closed");
      try {
        return work(...given);
      } catch (error) {
        abort();
        throw error instanceof HoneError ? error : cannotWrite(file, error);
      }
    };

  function addressId(address: string): number {
    let id = addresses.get(address);
    if (id === undefined) {
      id = addresses.size + 1;
      sql.address.run(id, address);
      addresses.set(address, id);
    }
    return id;
  }

  function insert({ messageId, subject, from, to, cc, bcc, date, fileName, body }: Mail): number {
    const people = new Set<string>();
    if (from) people.add(`f${addressId(from)}`);
    for (const list of [to, cc, bcc]) for (const address of list) people.add(`t${addressId(address)}`);
    const recipients = JSON.stringify({
      ...(to.length > 0 ? { to } : {}),
      ...(cc.length > 0 ? { cc } : {}),
      ...(bcc.length > 0 ? { bcc } : {}),
    });
    const id = dates.push(date);
    if (isUnspaced(subject) || isUnspaced(body)) sql.unspaced.run(id);
    sql.email.run(id, messageId, subject, from, date ?? null, recipients, [...people].join(" "), fileName, body);
    return id;
  }

  const peopleOf = (id: number) => new Set((sql.people.get(id) as string).split(" "));

  /** Each recipient has a copy of a mail that was sent one by one, and only the first copy is stored. */
  function addRecipientsOfCopy(id: number, copy: Mail): void {
    const people = peopleOf(id);
    const known = people.size;
    const recipients = JSON.parse(sql.recipients.get(id) as string) as Partial<Pick<Mail, "to" | "cc" | "bcc">>;
    for (const list of ["to", "cc", "bcc"] as const) {
      for (const address of copy[list]) {
        const person = `t${addressId(address)}`;
        if (!people.has(person)) recipients[list] = [...(recipients[list] ?? []), address];
        people.add(person);
      }
    }
    if (people.size > known) sql.readdress.run(JSON.stringify(recipients), [...people].join(" "), id);
  }

  /**
   * Adds one mail. "duplicate": a mail with the same subject, body and sender is there already; the copy's recipients are
   * added to its own, and the copy's id becomes an alias of it.
   */
  function add(mail: Mail): Added {
    const messageId = asStored(mail.messageId);
    const content = hash("sha256", `${mail.from}\0${mail.subject}\0${mail.body}`, "base64");
    const original = byContent.get(content);
    const isTaken = byMessageId.has(messageId);
    if (original !== undefined) {
      addRecipientsOfCopy(original, mail);
      if (!isTaken) {
        sql.alias.run(messageId, original);
        byMessageId.set(messageId, original);
      }
      return "duplicate";
    }
    let own = mail.messageId;
    // A derived one is taken where a mail that was once given it came with another text.
    for (let { body } = mail; byMessageId.has(asStored(own)); body += own) own = derivedId({ ...mail, body });
    const id = insert({ ...mail, messageId: own });
    byContent.set(content, id);
    byMessageId.set(asStored(own), id);
    return isTaken ? "id_taken" : "imported";
  }

  /** Adds scenarios, in the order in which they are listed. Throws HoneError on a duplicate id. */
  function addScenarios(scenarios: readonly EmailScenario[]): void {
    for (const { id, split, question, answer, message_ids, inbox_address, query_date, ...more } of scenarios) {
      if (sql.hasScenario.get(id)) throw new HoneError(`two questions have the id ${id}; each needs its own`);
      const { kind = null, how_realistic = null, facts } = more;
      const texts = [id, split, question, answer, JSON.stringify(message_ids), inbox_address, query_date];
      sql.scenario.run(...texts, kind, how_realistic, facts ? JSON.stringify(facts) : null);
    }
  }

  /** Whether a mail, by its id or a copy's, is one that this question's inbox may see on its day. */
  function isSeenBy(question: Pick<EmailScenario, "inbox_address" | "query_date">, messageId: string): boolean {
    // Both are numbered from 1 on.
    const id = byMessageId.get(asStored(messageId)) ?? 0;
    const address = addresses.get(bareAddress(question.inbox_address)) ?? 0;
    const day = dates[id - 1]?.slice(0, 10);
    if (day === undefined || day > question.query_date) return false;
    const people = peopleOf(id);
    return people.has(`f${address}`) || people.has(`t${address}`);
  }

  function orderByTime(): void {
    // Newest first, unknown dates last; of the same second, the last to arrive first.
    const newestFirst = Array.from(dates, (_, index) => index).sort((a, b) => {
      const dateA = dates[a] ?? "";
      const dateB = dates[b] ?? "";
      return dateA === dateB ? b - a : dateA < dateB ? 1 : -1;
    });
    newestFirst.forEach((index, position) => {
      sql.position.run(position + 1, dates[index] ?? null, index + 1);
    });
    db.exec(indexes);
  }

  function publish(): void {
    db.exec("INSERT INTO emails_fts (emails_fts) VALUES ('optimize')");
    sql.meta.run("schema_version", String(schemaVersion));
    db.exec("COMMIT");
    db.close();
    flush(building);
    moveDurably(building, resolve(file));
    open = false;
  }

  /**
   * Orders and indexes the mails, and replaces the old database, in steps of about 0.1 s, for callers that show progress or can
   * be interrupted: iterate to the end, or leave the loop (`return`, `break`) to abort. Closes the writer.
   */
  function* finishing(): Generator<IndexingProgress, void> {
    try {
      const total = dates.length;
      step(orderByTime)();
      const index = db.prepare(
        `INSERT INTO emails_fts (rowid, subject, body, people)
         SELECT position, iif(unspaced.id, indexed_text(subject), subject), iif(unspaced.id, indexed_text(body), body), people
         FROM timeline JOIN emails ON emails.id = email_id LEFT JOIN unspaced ON unspaced.id = email_id
         WHERE position BETWEEN ? AND ? ORDER BY position`,
      );
      for (let done = 0; done < total; done += INDEX_STEP) {
        yield { done, total };
        step(() => index.run(done + 1, Math.min(done + INDEX_STEP, total)))();
      }
      yield { done: total, total };
      step(publish)();
    } finally {
      abort();
    }
  }

  return {
    add: step(add),
    addScenarios: step(addScenarios),
    /** Whether a mail has this id, or a copy folded into a mail had it. */
    hasMessage: step((messageId: string) => byMessageId.has(asStored(messageId))),
    isSeenBy: step(isSeenBy),
    finishing,
    /** {@link finishing} without a pause. */
    finish() {
      for (const _ of finishing());
    },
    abort,
  };
}
