/**
 * Builds a mail database: mails in any order, duplicates folded, then one pass that orders them by time and indexes
 * them. Everything happens in a file beside the target, which takes the target's place only when it is whole: an
 * interrupted or failed build leaves the old database as it was.
 */
import { createHash, randomBytes } from "node:crypto";
import { closeSync, fsyncSync, mkdirSync, openSync, readdirSync, renameSync, rmSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import Database from "better-sqlite3";
import { codeOf, HoneError, messageOf } from "../../util/errors.js";
import type { Mail } from "./mail.js";
import type { EmailScenario } from "./scenario.js";
import { applicationId, index, schemaVersion, tables } from "./schema.js";

export interface MailDatabaseWriter {
  /**
   * Takes one mail. "duplicate" when a mail with this id, or with the same subject, body and sender, is there
   * already: the first one stays, and the id of a folded copy becomes an alias of it.
   */
  add(mail: Mail): "imported" | "duplicate";
  /** Takes scenarios, in the order in which they are listed afterwards. Throws HoneError on an id given twice. */
  addScenarios(scenarios: readonly EmailScenario[]): void;
  /** Is there a mail with this id, or one folded into another? */
  hasMessage(messageId: string): boolean;
  /** Orders and indexes the mails, and puts the new database in the place of the old. The writer is closed then. */
  finish(): void;
  /** Throws the unfinished database away; the old one stays. Does nothing after `finish` or `abort`. */
  abort(): void;
}

/** Files of builds in progress (or killed) for a target, beside it. */
export function unfinishedBuilds(target: string): string[] {
  const folder = dirname(resolve(target));
  const prefix = `${basename(target)}.building-`;
  try {
    return readdirSync(folder)
      .filter((name) => name.startsWith(prefix))
      .map((name) => join(folder, name));
  } catch (error) {
    if (codeOf(error) === "ENOENT") return [];
    throw error;
  }
}

/** Does a process write this file? A build holds SQLite's exclusive lock; a killed one has lost it. */
export function isBeingBuilt(file: string): boolean {
  let db: Database.Database | undefined;
  try {
    db = new Database(file, { fileMustExist: true, timeout: 0 });
    db.exec("BEGIN EXCLUSIVE");
    return false;
  } catch (error) {
    // Any other complaint (half a database, no database, gone by now) comes from a file nobody holds.
    return codeOf(error)?.startsWith("SQLITE_BUSY") ?? false;
  } finally {
    db?.close();
  }
}

function syncToDisk(path: string): void {
  const handle = openSync(path, "r");
  try {
    fsyncSync(handle);
  } finally {
    closeSync(handle);
  }
}

/** 128 bits that two mails share only when subject, body and sender are the same. */
function fingerprint({ subject, body, from }: Mail): Buffer {
  return createHash("sha256").update(`${from}\0${subject}\0${body}`).digest().subarray(0, 16);
}

/**
 * Starts a database that will be `file`. Folders on the way are made.
 *
 * @throws HoneError when nothing can be written there
 */
export function openMailDatabaseWriter(file: string): MailDatabaseWriter {
  const target = resolve(file);
  const building = `${target}.building-${randomBytes(4).toString("hex")}`;
  let db: Database.Database;
  try {
    mkdirSync(dirname(target), { recursive: true });
    for (const leftover of unfinishedBuilds(target)) if (!isBeingBuilt(leftover)) rmSync(leftover, { force: true });
    db = new Database(building);
    // Nothing on disk for recovery: what a crash leaves is thrown away anyway.
    db.pragma("journal_mode = MEMORY");
    db.pragma("synchronous = OFF");
    db.pragma("locking_mode = EXCLUSIVE");
    db.pragma("cache_size = -65536");
    db.pragma(`application_id = ${applicationId}`);
    db.exec("BEGIN EXCLUSIVE");
    db.exec(tables);
    db.exec("CREATE TABLE fingerprints (fingerprint BLOB PRIMARY KEY, message_id TEXT NOT NULL) WITHOUT ROWID");
  } catch (error) {
    throw new HoneError(`the mail database ${file} cannot be written: ${messageOf(error)}`, { cause: error });
  }

  const insertEmail = db.prepare(
    "INSERT INTO emails (message_id, subject, from_address, date, people, file_name, body) VALUES (?, ?, ?, ?, ?, ?, ?)",
  );
  const insertRecipient = db.prepare("INSERT INTO recipients VALUES (?, ?, ?, ?)");
  const insertAddress = db.prepare("INSERT INTO addresses (address) VALUES (?)");
  const insertAlias = db.prepare("INSERT INTO message_aliases VALUES (?, ?)");
  const insertFingerprint = db.prepare("INSERT INTO fingerprints VALUES (?, ?)");
  const insertScenario = db.prepare("INSERT INTO scenarios VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)");
  const findScenario = db.prepare("SELECT 1 FROM scenarios WHERE id = ?").pluck();
  const findMessage = db
    .prepare("SELECT 1 FROM emails WHERE message_id = ? UNION ALL SELECT 1 FROM message_aliases WHERE alias = ?")
    .pluck();
  const findFingerprint = db.prepare("SELECT message_id FROM fingerprints WHERE fingerprint = ?").pluck();

  const addressIds = new Map<string, number>();
  function addressId(address: string): number {
    let id = addressIds.get(address);
    if (id === undefined) {
      id = Number(insertAddress.run(address).lastInsertRowid);
      addressIds.set(address, id);
    }
    return id;
  }

  function insert(mail: Mail): void {
    const recipients = (["to", "cc", "bcc"] as const).flatMap((type) =>
      mail[type].map((address) => ({ type, address })),
    );
    const people = recipients.map(({ address }) => `t${addressId(address)}`);
    if (mail.from) people.unshift(`f${addressId(mail.from)}`);
    const { messageId, subject, from, date, fileName, body } = mail;
    const id = insertEmail.run(
      messageId,
      subject,
      from,
      date ?? null,
      [...new Set(people)].join(" "),
      fileName,
      body,
    ).lastInsertRowid;
    recipients.forEach(({ type, address }, ordinal) => {
      insertRecipient.run(id, ordinal, address, type);
    });
  }

  let open = true;
  /** Runs one step; what goes wrong in it (a full disk, say) ends the build and is told in one line. */
  function step<T>(work: () => T): T {
    if (!open) throw new Error("the mail database writer is closed");
    try {
      return work();
    } catch (error) {
      writer.abort();
      if (error instanceof HoneError) throw error;
      throw new HoneError(`the mail database ${file} could not be written: ${messageOf(error)}`, { cause: error });
    }
  }

  const writer: MailDatabaseWriter = {
    add: (mail) =>
      step(() => {
        if (findMessage.get(mail.messageId, mail.messageId)) return "duplicate";
        const key = fingerprint(mail);
        const kept = findFingerprint.get(key) as string | undefined;
        if (kept !== undefined) {
          insertAlias.run(mail.messageId, kept);
          return "duplicate";
        }
        insertFingerprint.run(key, mail.messageId);
        insert(mail);
        return "imported";
      }),

    addScenarios: (scenarios) =>
      step(() => {
        for (const { id, split, question, answer, message_ids, inbox_address, query_date, ...rest } of scenarios) {
          if (findScenario.get(id)) throw new HoneError(`two questions have the id ${id}; each needs its own`);
          insertScenario.run(
            id,
            split,
            question,
            answer,
            JSON.stringify(message_ids),
            inbox_address,
            query_date,
            rest.kind ?? null,
            rest.how_realistic ?? null,
          );
        }
      }),

    hasMessage: (messageId) => step(() => findMessage.get(messageId, messageId) !== undefined),

    finish: () =>
      step(() => {
        db.exec("DROP TABLE fingerprints");
        db.exec(index);
        db.prepare("INSERT INTO meta VALUES ('schema_version', ?)").run(String(schemaVersion));
        db.exec("COMMIT");
        db.pragma("optimize");
        db.close();
        syncToDisk(building);
        renameSync(building, target);
        syncToDisk(dirname(target));
        open = false;
      }),

    abort: () => {
      if (!open) return;
      open = false;
      db.close();
      rmSync(building, { force: true });
    },
  };
  return writer;
}
