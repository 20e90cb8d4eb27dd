/**
 * The tables of a mail database: ART-E's (emails, recipients, full text over subject and body), and others for fast and
 * safe search.
 *
 * `emails.id` is the order of arrival; `timeline.position` is the order of time: 1 is the newest mail, mails without a
 * date come last. The full-text index is keyed by position, so hits stream out newest first, a limit of ten stops the
 * query early, and "not later than" is the start position (FTS5 skips forward to it quickly, but backward slowly).
 *
 * The index has a third column, `people`: one token for each part an address has in a mail (`f12` sender, `t12`
 * recipient; 12 is `addresses.id`). The inbox is thus one more term of the query, and FTS5 skips by its rarest term
 * instead of visiting every mail that contains a common word.
 */

/**
 * Increment when a reader of the previous version could misread this version's files. Version 1 has the texts in its
 * index as they are; version 2 as `indexedText` writes them (words.ts). Both are read.
 */
export const schemaVersion = 2;

/** SQLite's application_id of a mail database, "hone" in ASCII. Distinguishes it from other SQLite files. */
export const applicationId = 0x686f6e65;

/** Bytes. A typical mail fits one page: builds and reads were a fifth slower with 4 KiB pages. */
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

/** Created after the timeline. */
export const indexes = `
  CREATE UNIQUE INDEX emails_message_id ON emails(message_id);
  CREATE INDEX timeline_date ON timeline(date DESC);
  -- FTS5 keeps no text of its own; it is written by the build, which does not ask this view.
  CREATE VIEW indexed_emails AS
    SELECT position, subject, body, people FROM timeline JOIN emails ON emails.id = email_id;
  CREATE VIRTUAL TABLE emails_fts USING fts5(
    subject, body, people, content = 'indexed_emails', content_rowid = 'position', tokenize = 'unicode61'
  );
  INSERT INTO emails_fts (emails_fts, rank) VALUES ('automerge', 0);
  INSERT INTO emails_fts (emails_fts, rank) VALUES ('hashsize', 33554432);
`;
