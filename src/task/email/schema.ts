/**
 * What a mail database looks like on disk. ART-E's tables (emails, recipients, full text over subject and body) and
 * what makes them fast and safe to search: a timeline, a token for each person's part in a mail, aliases, scenarios.
 *
 * `emails.id` is the order of arrival; `timeline.position` is the order of time, mails without a date first. The
 * full-text index is keyed by position: the newest hits come out of it first, a limit of ten stops it early, and
 * "not later than" is a bound on its key.
 *
 * The index has a third column, `people`: one token for each part an address has in a mail (`f12` sender, `t12`
 * recipient; 12 is `addresses.id`). The inbox is thus one more term of the query, and SQLite leaps through the rarest of
 * its terms instead of looking at every mail that holds a common word.
 */

/** Raised whenever a reader of the version before could misread what this version writes. */
export const schemaVersion = 1;

/** SQLite's application_id of a mail database: "hone" in ASCII. Tells it from any other SQLite file. */
export const applicationId = 0x686f6e65;

export const tables = `
  CREATE TABLE emails (
    id INTEGER PRIMARY KEY,
    message_id TEXT NOT NULL UNIQUE,
    subject TEXT NOT NULL,
    from_address TEXT NOT NULL,
    date TEXT, -- UTC, "YYYY-MM-DD HH:MM:SS"; NULL when unknown
    people TEXT NOT NULL,
    file_name TEXT NOT NULL,
    body TEXT NOT NULL
  );
  CREATE TABLE recipients (
    email_id INTEGER NOT NULL REFERENCES emails(id),
    ordinal INTEGER NOT NULL, -- order in the headers
    recipient_address TEXT NOT NULL,
    recipient_type TEXT NOT NULL, -- to, cc, bcc
    PRIMARY KEY (email_id, ordinal)
  ) WITHOUT ROWID;
  CREATE TABLE addresses (id INTEGER PRIMARY KEY, address TEXT NOT NULL UNIQUE);
  CREATE TABLE message_aliases (alias TEXT PRIMARY KEY, message_id TEXT NOT NULL) WITHOUT ROWID;
  CREATE TABLE scenarios (
    id TEXT NOT NULL UNIQUE,
    split TEXT NOT NULL,
    question TEXT NOT NULL,
    answer TEXT NOT NULL,
    message_ids TEXT NOT NULL, -- JSON list
    inbox_address TEXT NOT NULL,
    query_date TEXT NOT NULL, -- "YYYY-MM-DD"
    kind TEXT,
    how_realistic REAL
  );
  CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
`;

/** Made when every mail is there: position in time is known only then, and one pass in that order is the fastest. */
export const index = `
  CREATE TABLE timeline (
    position INTEGER PRIMARY KEY,
    date TEXT,
    email_id INTEGER NOT NULL REFERENCES emails(id)
  );
  INSERT INTO timeline (date, email_id) SELECT date, id FROM emails ORDER BY date, id;
  CREATE INDEX timeline_date ON timeline(date);
  CREATE VIEW indexed_emails AS
    SELECT position, subject, body, people FROM timeline JOIN emails ON emails.id = email_id;
  CREATE VIRTUAL TABLE emails_fts USING fts5(
    subject, body, people, content = 'indexed_emails', content_rowid = 'position', tokenize = 'unicode61'
  );
  INSERT INTO emails_fts (emails_fts, rank) VALUES ('automerge', 0);
  INSERT INTO emails_fts (emails_fts, rank) VALUES ('hashsize', 67108864);
  INSERT INTO emails_fts (emails_fts) VALUES ('rebuild');
  INSERT INTO emails_fts (emails_fts) VALUES ('optimize');
`;
