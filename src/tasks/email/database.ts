/** The door to the mail database: a writer that builds it, and (one per worker) read-only connections to it. */
import { join } from "node:path";

export { type MailDatabase, openMailDatabase, type StoredMail } from "./reader.js";
export type { MailHit, MailQuery, Ranking, Viewer } from "./search.js";
export { type Added, type IndexingProgress, type MailDatabaseWriter, openMailDatabaseWriter } from "./writer.js";

/** Where the database is: `--db`, or `mail.db` in the home folder. */
export function mailDatabasePath({ home, db }: { home: string; db?: string | undefined }): string {
  return db ?? join(home, "mail.db");
}
