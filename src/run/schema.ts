/** The tables of run.sqlite, version by version, and the migration of a file to the newest version. */
import type { Database } from "better-sqlite3";
import { VERDICTS_TABLE } from "../judge/index.js";
import { HoneError } from "../util/index.js";

/** "hone" in ASCII: distinguishes a run store from any other SQLite file. */
const APPLICATION_ID = 0x686f6e65;

/** Entry i migrates a store from version i to i + 1. Published entries never change; a new version adds one. */
const migrations: readonly string[] = [
  `
  -- One row: what makes this run this run.
  CREATE TABLE run (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    name TEXT NOT NULL,
    created TEXT NOT NULL,
    -- Options by name, as resolved when the run began.
    options TEXT NOT NULL,
    -- Fingerprints of what options only point at: model file, scenarios.
    contents TEXT NOT NULL
  );

  -- A row is the commit point of its step. Step 0 is the start: the base model, or a forked checkpoint.
  CREATE TABLE steps (
    step INTEGER PRIMARY KEY,
    -- Checkpoint in force after the step (one from before when the step changed nothing); NULL is the base model.
    checkpoint INTEGER,
    -- SHA-256 of its adapter.gguf.
    adapter TEXT,
    -- What follows from seeds and data alone.
    metrics TEXT NOT NULL,
    -- What depends on the machine and the day: seconds, bytes.
    timing TEXT NOT NULL
  );

  CREATE TABLE rollouts (
    id INTEGER PRIMARY KEY,
    phase TEXT NOT NULL CHECK (phase IN ('train', 'validation')),
    step INTEGER NOT NULL,
    scenario TEXT NOT NULL,
    member INTEGER NOT NULL,
    -- SHA-256 of the adapter that played; NULL is the base model.
    adapter TEXT,
    reward REAL NOT NULL,
    success INTEGER NOT NULL,
    ending TEXT NOT NULL,
    turns INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    -- What the update was given; NULL until the step is committed, and for rollouts that trained nothing.
    training_reward REAL,
    advantage REAL,
    -- Deflated JSON; deflated arrays (see packing.ts).
    trajectory BLOB NOT NULL,
    tokens BLOB,
    UNIQUE (phase, step, scenario, member)
  );

  CREATE TABLE validations (
    step INTEGER PRIMARY KEY,
    checkpoint INTEGER,
    result TEXT NOT NULL,
    seconds REAL NOT NULL
  );
  `,
  `
  -- A judge's words on a rollout; noted with its credit.
  ALTER TABLE rollouts ADD COLUMN explanation TEXT;

  -- What judges have said, by what they were asked; see src/judge/cache.ts.
  ${VERDICTS_TABLE}

  -- One row: what judging has cost so far.
  CREATE TABLE judge_spending (
    id INTEGER PRIMARY KEY CHECK (id = 1),
    requests INTEGER NOT NULL,
    prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL,
    -- Dollars; NULL where no price is known.
    cost REAL
  );
  `,
  `
  -- 0 until the engine has been seen to play the step's own adapter: so long the step can be taken back.
  ALTER TABLE steps ADD COLUMN settled INTEGER NOT NULL DEFAULT 1;

  -- What has computed in this run, as JSON, and when each was first seen.
  CREATE TABLE devices (
    id INTEGER PRIMARY KEY,
    part TEXT NOT NULL CHECK (part IN ('engine', 'learner')),
    facts TEXT NOT NULL,
    seen TEXT NOT NULL,
    UNIQUE (part, facts)
  );
  `,
  `
  -- How often the model that the run starts from solves a scenario (--difficulty). Its rollouts are those of training step 0;
  -- a row is final, so that the run trains on the same scenarios whenever it goes on.
  CREATE TABLE difficulty (
    scenario TEXT PRIMARY KEY,
    -- Rollouts that were played to an end and graded.
    n INTEGER NOT NULL,
    successes INTEGER NOT NULL
  );
  `,
];

/** @throws HoneError when the file is no run store, or was written by a newer hone */
export function bringUpToDate(database: Database, file: string): void {
  const version = checkVersion(database, file);
  if (version === migrations.length) return;
  database.transaction(() => {
    for (const migration of migrations.slice(version)) database.exec(migration);
    database.pragma(`application_id = ${APPLICATION_ID}`);
    database.pragma(`user_version = ${migrations.length}`);
  })();
}

/** The file's version; 0 for an empty file. Throws HoneError as {@link bringUpToDate}. */
export function checkVersion(database: Database, file: string): number {
  const version = database.pragma("user_version", { simple: true }) as number;
  const application = database.pragma("application_id", { simple: true }) as number;
  const tables = database.prepare("SELECT count(*) FROM sqlite_master").pluck().get() as number;
  if (application !== APPLICATION_ID && (tables > 0 || version > 0))
    throw new HoneError(`${file} is not a run of hone`);
  if (version > migrations.length) {
    throw new HoneError(
      `${file} was written by a newer hone (store version ${version}, this one knows ${migrations.length}); update hone`,
    );
  }
  return version;
}

/**
 * For readers, which change nothing: the tables they need exist since version 1.
 * @throws HoneError when the store is empty, or was written by a newer hone
 */
export function requireReadable(database: Database, file: string): void {
  if (checkVersion(database, file) === 0) throw new HoneError(`${file} is empty: the run was not started`);
}
