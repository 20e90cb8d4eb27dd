/** Where the mail database is: reader.ts reads it, one connection per worker, and writer.ts builds it. */
import { join } from "node:path";

/** Path of the database: `--db`, or `mail.db` in the home folder. */
export function mailDatabasePath({ home, db }: { home: string; db?: string | undefined }): string {
  return db ?? join(home, "mail.db");
}
