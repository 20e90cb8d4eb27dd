/**
 * run.sqlite: the whole history of a run. Its only writer is the main thread of the process that holds the run's lock;
 * readers (eval, the viewer) may read it at any time.
 *
 * Committing a step is flushed to the disk before the call returns. Rollouts are written as they come and reach the disk
 * with the next such flush at the latest: a killed process loses none, a power cut may, and they are played again.
 */
import { existsSync } from "node:fs";
import type Database from "better-sqlite3";
import type { Trajectory } from "../rollout/trajectory.js";
import { HoneError } from "../util/errors.js";
import { openDatabase } from "../util/sqlite.js";
import { pack, unpack } from "./packing.js";
import { openToRead, reading } from "./reading.js";
import type {
  Device,
  GroupOutcome,
  RolloutCredit,
  RolloutPhase,
  RunRecord,
  ScenarioDifficulty,
  StepRow,
  ValidationRow,
} from "./records.js";
import { checkStore, prepareStore } from "./schema.js";
import type { JudgeUsage, VerdictCache } from "./verdicts.js";
import { SqliteVerdicts } from "./verdicts.js";

interface RawStep {
  step: number;
  checkpoint: number | null;
  adapter: string | null;
  metrics: string;
  timing: string;
}

interface RawValidation {
  step: number;
  checkpoint: number | null;
  result: string;
  seconds: number;
}

const STEP = "step, checkpoint, adapter, metrics, timing";

function readStep(row: RawStep): StepRow {
  return { ...row, metrics: JSON.parse(row.metrics), timing: JSON.parse(row.timing) };
}

export class RunStore {
  readonly #database: Database.Database;

  private constructor(database: Database.Database) {
    this.#database = database;
  }

  /** Opens a store for writing; creates it if missing. Only under the run's lock. */
  static open(file: string): RunStore {
    return RunStore.#start(
      file,
      () => openDatabase(file),
      (database) => {
        database.pragma("journal_mode = WAL");
        database.pragma("synchronous = FULL");
        prepareStore(database, file);
      },
    );
  }

  /** Opens a store for reading, also while a run writes. */
  static read(file: string): RunStore {
    if (!existsSync(file)) throw new HoneError(`there is no run here: ${file} does not exist`);
    return RunStore.#start(
      file,
      () => openToRead(file),
      (database) => checkStore(database, file),
    );
  }

  /** Whether there is no store in this place: no file, or one without tables. */
  static isNone(file: string): boolean {
    if (!existsSync(file)) return true;
    using store = RunStore.#start(
      file,
      () => openToRead(file),
      () => undefined,
    );
    return store.#database.prepare("SELECT count(*) FROM sqlite_master").pluck().get() === 0;
  }

  /** The run in this file; undefined when there is none, or it was stopped before it began. */
  static recordIn(file: string): RunRecord | undefined {
    if (RunStore.isNone(file)) return undefined;
    using store = RunStore.read(file);
    return reading(file, () => store.record());
  }

  /** The committed steps of the run in this file; none where there is no run. */
  static stepsIn(file: string): StepRow[] {
    if (!RunStore.recordIn(file)) return [];
    using store = RunStore.read(file);
    return reading(file, () => store.steps());
  }

  /** Whether the run in this file has a step, or the checkpoint of a fork: there is something to lose. */
  static hasBegun(file: string): boolean {
    return RunStore.stepsIn(file).some(({ step, checkpoint }) => step > 0 || checkpoint !== null);
  }

  static #start(file: string, open: () => Database.Database, prepare: (database: Database.Database) => void): RunStore {
    return reading(file, () => {
      const database = open();
      try {
        prepare(database);
        return new RunStore(database);
      } catch (error) {
        database.close();
        throw error;
      }
    });
  }

  /** Undefined while the run has not begun. */
  record(): RunRecord | undefined {
    const row = this.#database.prepare("SELECT name, created, options, contents FROM run").get() as
      | { name: string; created: string; options: string; contents: string }
      | undefined;
    return row && { ...row, options: JSON.parse(row.options), contents: JSON.parse(row.contents) };
  }

  /** Begins the run: from the base model (checkpoint null) or from an adopted checkpoint. */
  begin(record: RunRecord, start: Pick<StepRow, "checkpoint" | "adapter">): void {
    this.#database.transaction(() => {
      this.#database
        .prepare("INSERT INTO run (id, name, created, options, contents) VALUES (1, ?, ?, ?, ?)")
        .run(record.name, record.created, JSON.stringify(record.options), JSON.stringify(record.contents));
      this.#insertStep({ step: 0, ...start, metrics: null, timing: null });
    })();
  }

  /** Resets the store to its state before the run began, but for what a judge was paid. */
  forget(): void {
    this.#database.transaction(() => {
      for (const table of ["rollouts", "validations", "steps", "devices", "difficulty", "run"]) {
        this.#database.prepare(`DELETE FROM ${table}`).run();
      }
    })();
  }

  /** Updates the options that may change while a run continues. */
  updateOptions(options: RunRecord["options"]): void {
    this.#database.prepare("UPDATE run SET options = ?").run(JSON.stringify(options));
  }

  saveRollout(phase: RolloutPhase, step: number, trajectory: Trajectory): void {
    const { trajectory: body, tokens } = pack(trajectory);
    // An fsync for each of many small rollouts would cost more than playing some again after a power cut.
    this.#database.pragma("synchronous = NORMAL");
    try {
      this.#database
        .prepare(
          `INSERT OR REPLACE INTO rollouts
           (phase, step, scenario, member, adapter, reward, success, ending, turns, completion_tokens, trajectory, tokens)
           VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        )
        .run(
          phase,
          step,
          trajectory.scenario.id,
          trajectory.index,
          trajectory.player.adapter,
          trajectory.reward.reward,
          trajectory.reward.success ? 1 : 0,
          trajectory.end,
          trajectory.turns,
          trajectory.completionTokens,
          body,
          tokens,
        );
    } finally {
      this.#database.pragma("synchronous = FULL");
    }
  }

  /** Saved rollouts of a step, ordered by scenario and member. */
  rollouts(phase: RolloutPhase, step: number): Trajectory[] {
    return this.#database
      .prepare<[string, number], { trajectory: Buffer; tokens: Buffer | null }>(
        "SELECT trajectory, tokens FROM rollouts WHERE phase = ? AND step = ? ORDER BY scenario, member",
      )
      .all(phase, step)
      .map(unpack);
  }

  /** What all rewarded rollouts of these committed steps earned, of the task as in training; undefined where they differ. */
  onlyReward(first: number, last: number): number | undefined {
    const range = this.#database
      .prepare<[number, number], { least: number | null; most: number | null }>(
        `SELECT MIN(min(reward, training_reward)) AS least, MAX(max(reward, training_reward)) AS most FROM rollouts
         WHERE phase = 'train' AND step BETWEEN ? AND ?`,
      )
      .get(first, last);
    return range?.least === range?.most ? (range?.least ?? undefined) : undefined;
  }

  /** Deletes rollouts of a step that another adapter played. Returns their number. */
  dropForeignRollouts(phase: RolloutPhase, step: number, adapter: string | null): number {
    return this.#database
      .prepare("DELETE FROM rollouts WHERE phase = ? AND step = ? AND adapter IS NOT ?")
      .run(phase, step, adapter).changes;
  }

  /** Deletes all rollouts of a step. */
  dropRollouts(phase: RolloutPhase, step: number): void {
    this.#database.prepare("DELETE FROM rollouts WHERE phase = ? AND step = ?").run(phase, step);
  }

  /**
   * The commit point of a step.
   * @param settled false where the engine has not yet been checked to play the step's adapter: see `settleStep`
   * @throws HoneError for another step than the one after the last: each is committed once, in order
   */
  commitStep(row: StepRow, credits: readonly RolloutCredit[], settled = true): void {
    const note = this.#database.prepare(
      `UPDATE rollouts SET training_reward = ?, advantage = ?, explanation = ?
       WHERE phase = 'train' AND step = ? AND scenario = ? AND member = ?`,
    );
    this.#database.transaction(() => {
      for (const { scenario, member, reward, advantage, explanation } of credits) {
        note.run(reward, advantage, explanation, row.step, scenario, member);
      }
      this.#insertStep(row, settled);
    })();
  }

  #insertStep({ step, checkpoint, adapter, metrics, timing }: StepRow, settled = true): void {
    const last = this.#database.prepare<[], number | null>("SELECT max(step) FROM steps").pluck().get() ?? -1;
    if (step !== last + 1) {
      throw new HoneError(
        last < 0
          ? `step ${step} cannot be committed: the run has no step 0 yet`
          : `step ${step} cannot be committed after step ${last} of this run: each step is committed once, in order; nothing was changed`,
      );
    }
    this.#database
      .prepare(`INSERT INTO steps (${STEP}, settled) VALUES (?, ?, ?, ?, ?, ?)`)
      .run(step, checkpoint, adapter, JSON.stringify(metrics), JSON.stringify(timing), settled ? 1 : 0);
  }

  /**
   * The first step that is committed and whose adapter the engine has not been checked to play. Those after it are none of them
   * settled: with --staleness there may be several.
   */
  unsettledStep(): StepRow | undefined {
    const row = this.#database
      .prepare<[], RawStep>(`SELECT ${STEP} FROM steps WHERE settled = 0 ORDER BY step LIMIT 1`)
      .get();
    return row && readStep(row);
  }

  /** Marks the step as settled: the engine plays its adapter. The measurement joins the step's metrics. */
  settleStep({ step, metrics, timing }: StepRow): void {
    this.#database
      .prepare("UPDATE steps SET metrics = ?, timing = ?, settled = 1 WHERE step = ?")
      .run(JSON.stringify(metrics), JSON.stringify(timing), step);
  }

  /**
   * Undoes the commit of a step that was never settled, and of those that were made from it. Their rollouts stay: a repetition of
   * the steps uses them.
   */
  takeBackStep(step: number): void {
    this.#database.transaction(() => {
      const { changes } = this.#database.prepare("DELETE FROM steps WHERE step >= ? AND settled = 0").run(step);
      if (changes === 0) throw new RangeError(`step ${step} is settled or was never committed`);
      this.#database
        .prepare(
          `UPDATE rollouts SET training_reward = NULL, advantage = NULL, explanation = NULL
           WHERE phase = 'train' AND step >= ?`,
        )
        .run(step);
    })();
  }

  /** All committed steps, step 0 first. */
  steps(): StepRow[] {
    return this.#database.prepare<[], RawStep>(`SELECT ${STEP} FROM steps ORDER BY step`).all().map(readStep);
  }

  /** The state the run began from. */
  firstStep(): StepRow {
    return this.#stepBy("ORDER BY step LIMIT 1");
  }

  /** The current state of the run. */
  lastStep(): StepRow {
    return this.#stepBy("ORDER BY step DESC LIMIT 1");
  }

  #stepBy(order: string): StepRow {
    const row = this.#database.prepare<[], RawStep>(`SELECT ${STEP} FROM steps ${order}`).get();
    if (!row) throw new HoneError("the run was not started");
    return readStep(row);
  }

  /** What is known of scenarios before training, all of these at once. */
  noteDifficulty(measured: readonly ScenarioDifficulty[]): void {
    const note = this.#database.prepare("INSERT INTO difficulty (scenario, n, successes) VALUES (?, ?, ?)");
    this.#database.transaction(() => {
      for (const { scenario, n, successes } of measured) note.run(scenario, n, successes);
    })();
  }

  difficulty(): ScenarioDifficulty[] {
    return this.#database
      .prepare<[], ScenarioDifficulty>("SELECT scenario, n, successes FROM difficulty ORDER BY rowid")
      .all();
  }

  /** The groups of all committed steps whose advantages are known, in the order of the steps. */
  groupOutcomes(): GroupOutcome[] {
    return this.#database
      .prepare<[], { step: number; scenario: string; largest: number }>(
        `SELECT step, scenario, max(abs(advantage)) AS largest FROM rollouts
         WHERE phase = 'train' AND step > 0 AND advantage IS NOT NULL GROUP BY step, scenario ORDER BY step, scenario`,
      )
      .all()
      .map(({ step, scenario, largest }) => ({ step, scenario, hasSignal: largest !== 0 }));
  }

  commitValidation({ step, checkpoint, result, seconds }: ValidationRow): void {
    this.#database
      .prepare("INSERT INTO validations (step, checkpoint, result, seconds) VALUES (?, ?, ?, ?)")
      .run(step, checkpoint, JSON.stringify(result), seconds);
  }

  validations(): ValidationRow[] {
    return this.#database
      .prepare<[], RawValidation>("SELECT * FROM validations ORDER BY step")
      .all()
      .map((row) => ({ ...row, result: JSON.parse(row.result) }));
  }

  /** Records a device at its first use. Returns whether it was new. */
  noteDevice({ part, seen, ...facts }: Device): boolean {
    const { changes } = this.#database
      .prepare("INSERT OR IGNORE INTO devices (part, facts, seen) VALUES (?, ?, ?)")
      .run(part, JSON.stringify(facts), seen);
    return changes > 0;
  }

  /** All devices that have computed in this run, in the order of their first use. */
  devices(): Device[] {
    return this.#database
      .prepare<[], { part: Device["part"]; facts: string; seen: string }>(
        "SELECT part, facts, seen FROM devices ORDER BY id",
      )
      .all()
      .map(({ part, facts, seen }) => ({ part, seen, ...JSON.parse(facts) }));
  }

  /** The judge's verdicts in this run. */
  verdicts(): VerdictCache {
    return new SqliteVerdicts(this.#database);
  }

  /** The judge's cost so far; undefined before the first request. */
  judgeSpending(): JudgeUsage | undefined {
    return this.#database
      .prepare<[], JudgeUsage>("SELECT requests, prompt_tokens, completion_tokens, cost FROM judge_spending")
      .get();
  }

  saveJudgeSpending({ requests, prompt_tokens, completion_tokens, cost }: JudgeUsage): void {
    this.#database
      .prepare("INSERT OR REPLACE INTO judge_spending VALUES (1, ?, ?, ?, ?)")
      .run(requests, prompt_tokens, completion_tokens, cost);
  }

  /** For what readers alone ask. */
  get prepare(): Database.Database["prepare"] {
    return this.#database.prepare.bind(this.#database);
  }

  close(): void {
    this.#database.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
