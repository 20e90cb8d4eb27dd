/**
 * What a mail database looks like on disk: ART-E's tables (emails, recipients, full text over subject and body) and
 * what makes them fast and safe to search.
 *
 * `emails.id` is the order of arrival; `timeline.position` is the order of time: 1 is the newest mail, mails without a
 * date come last. The full-text index is keyed by position. So hits stream out of it newest first and a limit of ten
 * stops it early, and "not later than" is where the stream starts (FTS5 leaps forward to it, backward it would crawl).
 *
 * The index has a third column, `people`: one token for each part an address has in a mail (`f12` sender, `t12`
 * recipient; 12 is `addresses.id`). The inbox is thus one more term of the query, and FTS5 leaps through the rarest of
 * its terms instead of looking at every mail that holds a common word.
 */

/** Raised whenever a reader of the version before could misread what this version writes. */
export const schemaVersion = 1;

/** SQLite's application_id of a mail database: "hone" in ASCII. Tells it from any other SQLite file. */
export const applicationId = 0x686f6e65;

/** Bytes. A typical mail fits one page: 4 KiB pages made builds and reads a fifth slower. */
export const pageSize = 16_384;

export const tables = `
  CREATE TABLE emails (
    id INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL,
    subject TEXT NOT NULL,
    from_address TEXT NOT NULL,
    date TEXT, -- UTC, "YYYY-MM-DD HH:MM:SS"; NULL when unknown
    recipients TEXT NOT NULL, -- JSON: {"to": [...], "cc": [...], "bcc": [...]}, empty lists left out
    people TEXT NOT NULL,
    file_name TEXT NOT NULL,
    body TEXT NOT NULL
  );
  CREATE VIEW recipients AS
    SELECT emails.id AS email_id, person.value AS recipient_address, list.key AS recipient_type
    FROM emails, json_each(emails.recipients) AS list, json_each(list.value) AS person;
  CREATE TABLE addresses (id INTEGER PRIMARY KEY, address TEXT NOT NULL UNIQUE);
  CREATE TABLE message_aliases (alias TEXT PRIMARY KEY, message_id TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE timeline (
    position INTEGER PRIMARY KEY,
    date TEXT,
    email_id INTEGER NOT NULL REFERENCES emails(id)
  );
  CREATE TABLE scenarios (
    id TEXT NOT NULL UNIQUE,
    split TEXT NOT NULL,
    question TEXT NOT NULL,
    answer TEXT NOT NULL,
    message_ids TEXT NOT NULL, -- JSON list
    inbox_address TEXT NOT NULL,
    query_date TEXT NOT NULL, -- "YYYY-MM-DD"
    kind TEXT,
    how_realistic REAL,
    facts TEXT -- JSON
  );
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
`;

/** Made when the timeline is there. */
export const indexes = `
  CREATE UNIQUE INDEX emails_message_id ON emails(message_id);
  CREATE INDEX timeline_date ON timeline(date DESC);
  CREATE VIEW indexed_emails AS
    SELECT position, subject, body, people FROM timeline JOIN emails ON emails.id = email_id;
  CREATE VIRTUAL TABLE emails_fts USING fts5(
    subject, body, people, content = 'indexed_emails', content_rowid = 'position', tokenize = 'unicode61'
  );
  INSERT INTO emails_fts (emails_fts, rank) VALUES ('automerge', 0);
  INSERT INTO emails_fts (emails_fts, rank) VALUES ('hashsize', 33554432);
`;
