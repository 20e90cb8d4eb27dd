/** The tables of run.sqlite. */
import { dirname, join } from "node:path";
import type { Database } from "better-sqlite3";
import { HoneError } from "../util/errors.js";
import { FORMAT, requireFormat } from "./format.js";
import { VERDICTS_TABLE } from "./verdicts.js";

/** "hone" in ASCII: distinguishes a run store from any other SQLite file. */
const APPLICATION_ID = 0x686f6e65;

const TABLES = `
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
    timing TEXT NOT NULL,
    -- 0 until the engine has been seen to play the step's own adapter: so long the step can be taken back.
    settled INTEGER NOT NULL
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
    -- What the rollout was credited with, also in a group without a gradient; NULL until the step is committed, and for
    -- rollouts without a reward.
    training_reward REAL,
    advantage REAL,
    -- A judge's words on a rollout; noted with its credit.
    explanation TEXT,
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

  -- What judges have said, by what they were asked; see verdicts.ts.
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

  -- What has computed in this run, as JSON, and when each was first seen.
  CREATE TABLE devices (
    id INTEGER PRIMARY KEY,
    part TEXT NOT NULL CHECK (part IN ('engine', 'learner')),
    facts TEXT NOT NULL,
    seen TEXT NOT NULL,
    UNIQUE (part, facts)
  );

  -- How often the model that the run starts from solves a scenario (--difficulty). Its rollouts are those of training step 0;
  -- a row is final, so that the run trains on the same scenarios whenever it goes on.
  CREATE TABLE difficulty (
    scenario TEXT PRIMARY KEY,
    -- Rollouts that were played to an end and graded.
    n INTEGER NOT NULL,
    successes INTEGER NOT NULL
  );
`;

export function isEmpty(database: Database): boolean {
  return database.prepare("SELECT count(*) FROM sqlite_master").pluck().get() === 0;
}

/** @throws HoneError when the file is no run store, or one of another format */
export function checkStore(database: Database, file: string): void {
  if (isEmpty(database)) throw new HoneError(`${file} is empty: the run was not started`);
  if (database.pragma("application_id", { simple: true }) !== APPLICATION_ID) {
    throw new HoneError(`${file} is not a run of hone`);
  }
  const format = database.pragma("user_version", { simple: true });
  requireFormat(format, file, join(dirname(file), "checkpoints/NNNN/adapter"));
}

/** Creates the tables in an empty file. Throws as {@link checkStore}. */
export function prepareStore(database: Database, file: string): void {
  if (isEmpty(database)) {
    database.transaction(() => {
      database.exec(TABLES);
      database.pragma(`application_id = ${APPLICATION_ID}`);
      database.pragma(`user_version = ${FORMAT}`);
    })();
  }
  checkStore(database, file);
}
