/** A read-only connection to a mail database: one for each worker. */
import { existsSync, statSync } from "node:fs";
import type Database from "better-sqlite3";
import { codeOf, HoneError, messageOf } from "../core/util/errors.js";
import { hone } from "../core/util/program.js";
import { openDatabase } from "../core/util/sqlite.js";
import { isBeingBuilt, unfinishedBuilds } from "./build-file.js";
import type { Mail } from "./mail.js";
import type { EmailScenario } from "./scenario.js";
import { applicationId, schemaVersion } from "./schema.js";
import { bareAddress, type MailSearch, mailSearch, type Viewer } from "./search.js";

/** A mail as it is shown. */
export type StoredMail = Readonly<Omit<Mail, "fileName">>;

/** A mail without its text. */
export interface MailHeader extends Pick<StoredMail, "messageId" | "date" | "subject"> {
  /** Addresses of sender and recipients, each once. */
  readonly people: readonly string[];
}

export interface MailDatabase extends Disposable {
  /** Throws ToolError on an invalid query. */
  readonly search: MailSearch;
  /** A mail by its id or one of its aliases; undefined when there is none that the viewer may see. */
  read(viewer: Viewer, messageId: string): StoredMail | undefined;
  /** The id of the mail that has this id or alias, with or without angle brackets; undefined when there is none. */
  resolveId(messageId: string): string | undefined;
  /** All scenarios, in the order in which they were added. */
  scenarios(): EmailScenario[];
  /** All mails, in the order of their arrival. */
  headers(): Iterable<MailHeader>;
  close(): void;
}

/** Milliseconds to wait for a lock, in case another program reads the file while workers start. */
const LOCK_TIMEOUT = 1000;

/**
 * Opens a finished database.
 *
 * @throws HoneError in one line when `file` does not exist, or this version of hone cannot read it
 */
export function openMailDatabase(file: string): MailDatabase {
  if (!existsSync(file)) {
    throw new HoneError(
      unfinishedBuilds(file).some(isBeingBuilt)
        ? `the mail database ${file} is being built right now; wait until that is done`
        : `there is no mail database ${file}; \`${hone("build-db")} --db ${file}\` makes one`,
    );
  }
  let db: Database.Database | undefined;
  try {
    if (statSync(file).isDirectory()) throw new HoneError(`${file} is a folder, not a mail database`);
    db = openDatabase(file, { readonly: true, fileMustExist: true, timeout: LOCK_TIMEOUT });
    // Keeps the shared lock after the first read: locking for every statement costs more than a search.
    db.pragma("locking_mode = EXCLUSIVE");
    db.pragma("mmap_size = 2147418112");
    return readerOf(db, versionOf(db, file));
  } catch (error) {
    db?.close();
    throw error instanceof HoneError ? error : cannotOpen(file, error);
  }
}

/** The version of the file's schema. Throws HoneError when it is not one that is read here. */
function versionOf(db: Database.Database, file: string): number {
  if (db.pragma("application_id", { simple: true }) !== applicationId) {
    throw new HoneError(`${file} is not a mail database of hone; \`${hone("build-db")}\` makes one`);
  }
  const version = Number(db.prepare("SELECT value FROM meta WHERE key = 'schema_version'").pluck().get());
  if (!(version >= 1 && version <= schemaVersion)) {
    throw new HoneError(
      `the mail database ${file} has version ${version}, this hone reads versions 1 to ${schemaVersion}; build it again with \`${hone("build-db")}\``,
    );
  }
  return version;
}

function cannotOpen(file: string, cause: unknown): HoneError {
  const code = codeOf(cause) ?? "";
  const reason = code.startsWith("SQLITE_BUSY")
    ? "is in use by another program that writes to it; close that first"
    : code.startsWith("SQLITE_NOTADB")
      ? `is not a mail database of hone; \`${hone("build-db")}\` makes one`
      : code.startsWith("SQLITE_CORRUPT")
        ? `is damaged; build it again with \`${hone("build-db")}\``
        : `cannot be opened: ${messageOf(cause)}`;
  return new HoneError(`${file} ${reason}`, { cause });
}

interface EmailRow {
  message_id: string;
  date: string | null;
  subject: string;
  from_address: string;
  recipients: string;
  body: string;
}

function readerOf(db: Database.Database, version: number): MailDatabase {
  const search = version === 1 ? mailSearch(db, (text) => text) : mailSearch(db);
  const email = db.prepare(
    "SELECT message_id, date, subject, from_address, recipients, body FROM emails WHERE message_id = ?",
  );
  const aliased = db
    .prepare(
      `SELECT message_id FROM emails WHERE message_id = :id
       UNION ALL SELECT message_id FROM message_aliases WHERE alias = :id`,
    )
    .pluck();

  function resolveId(messageId: string): string | undefined {
    const id = messageId.trim();
    const bare = id.replace(/^<|>$/g, "");
    for (const candidate of new Set([messageId, id, `<${bare}>`, bare])) {
      const found = aliased.get({ id: candidate }) as string | undefined;
      if (found !== undefined) return found;
    }
    return undefined;
  }

  return {
    resolveId,
    search,
    read({ inbox, today }, messageId) {
      const resolved = resolveId(messageId);
      const row = resolved === undefined ? undefined : (email.get(resolved) as EmailRow | undefined);
      if (!row) return undefined;
      const { to = [], cc = [], bcc = [] } = JSON.parse(row.recipients) as Partial<Pick<Mail, "to" | "cc" | "bcc">>;
      const viewer = bareAddress(inbox);
      if (![row.from_address, ...to, ...cc, ...bcc].includes(viewer)) return undefined;
      if (today !== undefined && (row.date === null || row.date.slice(0, 10) > today)) return undefined;
      const { message_id, date, subject, from_address, body } = row;
      return { messageId: message_id, date: date ?? undefined, subject, from: from_address, to, cc, bcc, body };
    },
    scenarios() {
      const rows = db.prepare("SELECT * FROM scenarios ORDER BY rowid").all() as (Omit<
        EmailScenario,
        "message_ids" | "kind" | "how_realistic" | "facts"
      > & { message_ids: string; kind: string | null; how_realistic: number | null; facts: string | null })[];
      return rows.map(({ message_ids, kind, how_realistic, facts, ...scenario }) => ({
        ...scenario,
        message_ids: JSON.parse(message_ids) as string[],
        ...(kind === null ? {} : { kind }),
        ...(how_realistic === null ? {} : { how_realistic }),
        ...(facts === null ? {} : { facts: JSON.parse(facts) as NonNullable<EmailScenario["facts"]> }),
      }));
    },
    *headers() {
      const rows = db
        .prepare("SELECT message_id, date, subject, from_address, recipients FROM emails ORDER BY id")
        .iterate() as Iterable<Omit<EmailRow, "body">>;
      for (const { message_id, date, subject, from_address, recipients } of rows) {
        const lists = Object.values(JSON.parse(recipients) as Record<string, string[]>);
        const people = new Set([from_address, ...lists.flat()].filter(Boolean));
        yield { messageId: message_id, date: date ?? undefined, subject, people: [...people] };
      }
    },
    close: () => void db.close(),
    [Symbol.dispose]: () => void db.close(),
  };
}
