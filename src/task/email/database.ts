/** The door to the mail database: a writer that builds it, and (one per worker) read-only connections to it. */
export { type Added, type MailDatabaseWriter, openMailDatabaseWriter } from "./writer.js";
