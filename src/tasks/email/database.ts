/** Access to the mail database: a writer that builds it, and read-only connections, one per worker. */
import { join } from "node:path";

export { type MailDatabase, type MailHeader, openMailDatabase, type StoredMail } from "./reader.js";
export type { MailHit, MailQuery, Ranking, Viewer } from "./search.js";
export { type Added, type IndexingProgress, type MailDatabaseWriter, openMailDatabaseWriter } from "./writer.js";

/** Path of the database: `--db`, or `mail.db` in the home folder. */
export function mailDatabasePath({ home, db }: { home: string; db?: string | undefined }): string {
  return db ?? join(home, "mail.db");
}
