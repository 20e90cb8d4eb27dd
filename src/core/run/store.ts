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
import { type PackedTrajectory, pack, unpack } from "./packing.js";
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
import { checkStore, isEmpty, prepareStore } from "./schema.js";
import type { JudgeUsage, VerdictCache } from "./verdicts.js";
import { SqliteVerdicts } from "./verdicts.js";

/** A record as its row has it: what is no text or number is JSON. */
type Raw<T, K extends keyof T> = Omit<T, K> & Readonly<Record<K, string>>;

const STEP = "step, checkpoint, adapter, metrics, timing";

const readStep = ({ metrics, timing, ...row }: Raw<StepRow, "metrics" | "timing">): StepRow => ({
  ...row,
  metrics: JSON.parse(metrics),
  timing: JSON.parse(timing),
});

export class RunStore {
  readonly #database: Database.Database;

  private constructor(database: Database.Database) {
    this.#database = database;
  }

  /** Opens a store for writing; creates it if missing. Only under the run's lock. */
  static open(file: string): RunStore {
    return RunStore.#of(file, openDatabase, (database) => {
      database.pragma("journal_mode = WAL");
      database.pragma("synchronous = FULL");
      prepareStore(database, file);
    });
  }

  /** Opens a store for reading, also while a run writes. */
  static read(file: string): RunStore {
    if (!existsSync(file)) throw new HoneError(`there is no run here: ${file} does not exist`);
    return RunStore.#of(file, openToRead, (database) => checkStore(database, file));
  }

  /** Whether there is no store in this place: no file, or one without tables. */
  static isNone(file: string): boolean {
    if (!existsSync(file)) return true;
    using store = RunStore.#of(file, openToRead, () => undefined);
    return isEmpty(store.#database);
  }

  /** The run in this file; undefined when there is none, or it was stopped before it began. */
  static recordIn(file: string): RunRecord | undefined {
    if (RunStore.isNone(file)) return undefined;
    using store = RunStore.read(file);
    return reading(file, () => store.record());
  }

  /** The committed steps of the run in this file; none where there is no run. */
  static stepsIn(file: string): StepRow[] {
    if (RunStore.isNone(file)) return [];
    using store = RunStore.read(file);
    return reading(file, () => store.steps());
  }

  /** Whether the run in this file has a step, or the checkpoint of a fork: there is something to lose. */
  static hasBegun(file: string): boolean {
    return RunStore.stepsIn(file).some(({ step, checkpoint }) => step > 0 || checkpoint !== null);
  }

  static #of(
    file: string,
    open: (file: string) => Database.Database,
    prepare: (database: Database.Database) => void,
  ): RunStore {
    return reading(file, () => {
      const store = new RunStore(open(file));
      try {
        prepare(store.#database);
        return store;
      } catch (error) {
        store.close();
        throw error;
      }
    });
  }

  /** Undefined while the run has not begun. */
  record(): RunRecord | undefined {
    const [row] = this.#rows<Raw<RunRecord, "options" | "contents">>(
      "SELECT name, created, options, contents FROM run",
    );
    return row && { ...row, options: JSON.parse(row.options), contents: JSON.parse(row.contents) };
  }

  /** Begins the run: from the base model (checkpoint null) or from an adopted checkpoint. */
  begin({ name, created, options, contents }: RunRecord, start: Pick<StepRow, "checkpoint" | "adapter">): void {
    this.#atOnce(() => {
      const values = [name, created, JSON.stringify(options), JSON.stringify(contents)];
      this.#change("INSERT INTO run (id, name, created, options, contents) VALUES (1, ?, ?, ?, ?)", values);
      this.#insertStep({ step: 0, ...start, metrics: null, timing: null });
    });
  }

  /** Resets the store to its state before the run began, but for what a judge was paid. */
  forget(): void {
    this.#atOnce(() => {
      for (const table of ["rollouts", "validations", "steps", "devices", "difficulty", "run"])
        this.#change(`DELETE FROM ${table}`);
    });
  }

  /** Updates the options that may change while a run continues. */
  updateOptions(options: RunRecord["options"]): void {
    this.#change("UPDATE run SET options = ?", [JSON.stringify(options)]);
  }

  saveRollout(phase: RolloutPhase, step: number, trajectory: Trajectory): void {
    const { scenario, index, player, reward, end, turns, completionTokens } = trajectory;
    const played = [reward.reward, reward.success ? 1 : 0, end, turns, completionTokens];
    const packed = pack(trajectory);
    // An fsync for each of many small rollouts would cost more than playing some again after a power cut.
    this.#database.pragma("synchronous = NORMAL");
    try {
      this.#change(
        `INSERT OR REPLACE INTO rollouts
         (phase, step, scenario, member, adapter, reward, success, ending, turns, completion_tokens, trajectory, tokens)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        [phase, step, scenario.id, index, player.adapter, ...played, packed.trajectory, packed.tokens],
      );
    } finally {
      this.#database.pragma("synchronous = FULL");
    }
  }

  /** Saved rollouts of a step, ordered by scenario and member. */
  rollouts(phase: RolloutPhase, step: number): Trajectory[] {
    return this.#rows<PackedTrajectory>(
      "SELECT trajectory, tokens FROM rollouts WHERE phase = ? AND step = ? ORDER BY scenario, member",
      [phase, step],
    ).map(unpack);
  }

  /** What all rewarded rollouts of these committed steps earned, of the task as in training; undefined where they differ. */
  onlyReward(first: number, last: number): number | undefined {
    const [range] = this.#rows<{ least: number | null; most: number | null }>(
      `SELECT MIN(min(reward, training_reward)) AS least, MAX(max(reward, training_reward)) AS most FROM rollouts
       WHERE phase = 'train' AND step BETWEEN ? AND ?`,
      [first, last],
    );
    return range?.least === range?.most ? (range?.least ?? undefined) : undefined;
  }

  /** Deletes rollouts of a step that another adapter played. Returns their number. */
  dropForeignRollouts(phase: RolloutPhase, step: number, adapter: string | null): number {
    const played = [phase, step, adapter];
    return this.#change("DELETE FROM rollouts WHERE phase = ? AND step = ? AND adapter IS NOT ?", played);
  }

  /** Deletes all rollouts of a step. */
  dropRollouts(phase: RolloutPhase, step: number): void {
    this.#change("DELETE FROM rollouts WHERE phase = ? AND step = ?", [phase, step]);
  }

  /**
   * The commit point of a step.
   * @param settled false where the engine has not yet been checked to play the step's adapter: see `settleStep`
   * @throws HoneError for another step than the one after the last: each is committed once, in order
   */
  commitStep(row: StepRow, credits: readonly RolloutCredit[], settled = true): void {
    this.#atOnce(() => {
      for (const { scenario, member, reward, advantage, explanation } of credits) {
        this.#change(
          `UPDATE rollouts SET training_reward = ?, advantage = ?, explanation = ?
           WHERE phase = 'train' AND step = ? AND scenario = ? AND member = ?`,
          [reward, advantage, explanation, row.step, scenario, member],
        );
      }
      this.#insertStep(row, settled);
    });
  }

  #insertStep({ step, checkpoint, adapter, metrics, timing }: StepRow, settled = true): void {
    const last = this.#rows<{ step: number }>("SELECT step FROM steps ORDER BY step DESC LIMIT 1")[0]?.step ?? -1;
    if (step !== last + 1) {
      throw new HoneError(
        last < 0
          ? `step ${step} cannot be committed: the run has no step 0 yet`
          : `step ${step} cannot be committed after step ${last} of this run: each step is committed once, in order; nothing was changed`,
      );
    }
    const values = [step, checkpoint, adapter, JSON.stringify(metrics), JSON.stringify(timing), settled ? 1 : 0];
    this.#change(`INSERT INTO steps (${STEP}, settled) VALUES (?, ?, ?, ?, ?, ?)`, values);
  }

  /**
   * The first step that is committed and whose adapter the engine has not been checked to play. Those after it are none of them
   * settled: with --staleness there may be several.
   */
  unsettledStep(): StepRow | undefined {
    return this.#steps("WHERE settled = 0 ORDER BY step LIMIT 1")[0];
  }

  /** Marks the step as settled: the engine plays its adapter. The measurement joins the step's metrics. */
  settleStep({ step, metrics, timing }: StepRow): void {
    const values = [JSON.stringify(metrics), JSON.stringify(timing), step];
    this.#change("UPDATE steps SET metrics = ?, timing = ?, settled = 1 WHERE step = ?", values);
  }

  /**
   * Undoes the commit of a step that was never settled, and of those that were made from it. Their rollouts stay: a repetition of
   * the steps uses them.
   */
  takeBackStep(step: number): void {
    this.#atOnce(() => {
      const changes = this.#change("DELETE FROM steps WHERE step >= ? AND settled = 0", [step]);
      if (changes === 0) throw new RangeError(`step ${step} is settled or was never committed`);
      this.#change(
        `UPDATE rollouts SET training_reward = NULL, advantage = NULL, explanation = NULL
         WHERE phase = 'train' AND step >= ?`,
        [step],
      );
    });
  }

  /** All committed steps, step 0 first. */
  steps(): StepRow[] {
    return this.#steps("ORDER BY step");
  }

  /** The state the run began from. */
  firstStep(): StepRow {
    return this.#begun("ORDER BY step LIMIT 1");
  }

  /** The current state of the run. */
  lastStep(): StepRow {
    return this.#begun("ORDER BY step DESC LIMIT 1");
  }

  #begun(which: string): StepRow {
    const [row] = this.#steps(which);
    if (!row) throw new HoneError("the run was not started");
    return row;
  }

  #steps(which: string): StepRow[] {
    return this.#rows<Raw<StepRow, "metrics" | "timing">>(`SELECT ${STEP} FROM steps ${which}`).map(readStep);
  }

  /** What is known of scenarios before training, all of these at once. */
  noteDifficulty(measured: readonly ScenarioDifficulty[]): void {
    this.#atOnce(() => {
      for (const { scenario, n, successes } of measured)
        this.#change("INSERT INTO difficulty (scenario, n, successes) VALUES (?, ?, ?)", [scenario, n, successes]);
    });
  }

  difficulty(): ScenarioDifficulty[] {
    return this.#rows("SELECT scenario, n, successes FROM difficulty ORDER BY rowid");
  }

  /** The groups of all committed steps whose advantages are known, in the order of the steps. */
  groupOutcomes(): GroupOutcome[] {
    return this.#rows<Omit<GroupOutcome, "hasSignal"> & { largest: number }>(
      `SELECT step, scenario, max(abs(advantage)) AS largest FROM rollouts
       WHERE phase = 'train' AND step > 0 AND advantage IS NOT NULL GROUP BY step, scenario ORDER BY step, scenario`,
    ).map(({ largest, ...group }) => ({ ...group, hasSignal: largest !== 0 }));
  }

  commitValidation({ step, checkpoint, result, seconds }: ValidationRow): void {
    const values = [step, checkpoint, JSON.stringify(result), seconds];
    this.#change("INSERT INTO validations (step, checkpoint, result, seconds) VALUES (?, ?, ?, ?)", values);
  }

  validations(): ValidationRow[] {
    const rows = this.#rows<Raw<ValidationRow, "result">>("SELECT * FROM validations ORDER BY step");
    return rows.map((row) => ({ ...row, result: JSON.parse(row.result) }));
  }

  /** Records a device at its first use. Returns whether it was new. */
  noteDevice({ part, seen, ...facts }: Device): boolean {
    const values = [part, JSON.stringify(facts), seen];
    return this.#change("INSERT OR IGNORE INTO devices (part, facts, seen) VALUES (?, ?, ?)", values) > 0;
  }

  /** All devices that have computed in this run, in the order of their first use. */
  devices(): Device[] {
    const rows = this.#rows<{ part: Device["part"]; facts: string; seen: string }>(
      "SELECT part, facts, seen FROM devices ORDER BY id",
    );
    return rows.map(({ facts, ...device }) => ({ ...device, ...JSON.parse(facts) }));
  }

  /** The judge's verdicts in this run. */
  verdicts(): VerdictCache {
    return new SqliteVerdicts(this.#database);
  }

  /** The judge's cost so far; undefined before the first request. */
  judgeSpending(): JudgeUsage | undefined {
    return this.#rows<JudgeUsage>("SELECT requests, prompt_tokens, completion_tokens, cost FROM judge_spending")[0];
  }

  saveJudgeSpending({ requests, prompt_tokens, completion_tokens, cost }: JudgeUsage): void {
    const values = [requests, prompt_tokens, completion_tokens, cost];
    this.#change("INSERT OR REPLACE INTO judge_spending VALUES (1, ?, ?, ?, ?)", values);
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

  #rows<R>(sql: string, values: readonly unknown[] = []): R[] {
    return this.#database.prepare<unknown[], R>(sql).all(...values);
  }

  /** Returns the number of rows that were changed. */
  #change(sql: string, values: readonly unknown[] = []): number {
    return this.#database.prepare(sql).run(...values).changes;
  }

  /** All changes of the work, or none where it throws. */
  #atOnce(work: () => void): void {
    this.#database.transaction(work)();
  }
}
