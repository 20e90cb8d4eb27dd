/** Read access to a run: its steps, and every rollout with its reward and advantage in the update. Changes nothing. */
import { existsSync, readdirSync, statSync } from "node:fs";
import { join } from "node:path";
import { endOf } from "../../core/learn/python-child.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { Checkpoints, verifyCheckpoint } from "../../core/run/checkpoints.js";
import { ownerOf } from "../../core/run/lock.js";
import { unpack } from "../../core/run/packing.js";
import { reading } from "../../core/run/reading.js";
import type {
  Device,
  GroupOutcome,
  RolloutPhase,
  RunRecord,
  ScenarioDifficulty,
  StepRow,
  ValidationRow,
} from "../../core/run/records.js";
import { STORE_FILE } from "../../core/run/run.js";
import { RunStore } from "../../core/run/store.js";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { hone } from "../../core/util/program.js";

/** One rollout as stored, without its conversation. */
export interface RolloutRow {
  readonly id: number;
  readonly phase: RolloutPhase;
  readonly step: number;
  readonly scenario: string;
  readonly member: number;
  /** The task's own reward. */
  readonly reward: number;
  readonly success: boolean;
  readonly end: string;
  readonly turns: number;
  readonly completionTokens: number;
  /** As the update used them; null where the step is not committed or the group had no reward. */
  readonly trainingReward: number | null;
  readonly advantage: number | null;
  /** A judge's explanation. */
  readonly explanation: string | null;
}

interface Raw extends Omit<RolloutRow, "success"> {
  success: number;
  trajectory: Buffer;
  tokens: Buffer | null;
}

export interface RolloutFilter {
  readonly phase?: RolloutPhase;
  /** Both are included. */
  readonly from?: number;
  readonly to?: number;
  readonly ids?: readonly number[];
}

export interface SeenRollout extends RolloutRow {
  readonly trajectory: Trajectory;
}

/** The tail of a log of the run's engine or learner. */
export interface LogTail {
  readonly name: string;
  readonly lines: readonly string[];
}

const LOG_BYTES = 16_384;
const LOG_LINES = 40;

export class RunReader {
  readonly folder: string;
  readonly #file: string;
  /** Of the file that is open. */
  readonly #inode: number;
  readonly #store: RunStore;
  readonly #checkpoints: Checkpoints;

  private constructor(folder: string, file: string, store: RunStore) {
    this.folder = folder;
    this.#file = file;
    this.#inode = statSync(file).ino;
    this.#store = store;
    this.#checkpoints = new Checkpoints(join(folder, "checkpoints"));
  }

  /** @throws HoneError when there is no run, or one of another format, or it cannot be read */
  static open(folder: string): RunReader {
    const file = join(folder, STORE_FILE);
    return new RunReader(folder, file, RunStore.read(file));
  }

  /** @throws HoneError when the run was stopped before it began */
  record(): RunRecord {
    const record = reading(this.#file, () => this.#store.record());
    if (record) return record;
    throw new HoneError(`the run ${this.folder} was ended before it began; \`${hone("train")}\` begins it again`);
  }

  steps(): StepRow[] {
    return reading(this.#file, () => this.#store.steps());
  }

  validations(): ValidationRow[] {
    return reading(this.#file, () => this.#store.validations());
  }

  devices(): Device[] {
    return reading(this.#file, () => this.#store.devices());
  }

  /** The groups of all committed steps whose advantages are known. */
  groupOutcomes(): GroupOutcome[] {
    return reading(this.#file, () => this.#store.groupOutcomes());
  }

  /** How often the start's model solved each scenario; empty without --difficulty. */
  difficulty(): ScenarioDifficulty[] {
    return reading(this.#file, () => this.#store.difficulty());
  }

  /** Whether the run's file is another than the one that is open: its folder was removed, and the run begun anew. */
  isReplaced(): boolean {
    const now = statSync(this.#file, { throwIfNoEntry: false });
    return now !== undefined && now.ino !== this.#inode;
  }

  /** A text that differs after every write to the store. */
  revision(): string {
    return reading(this.#file, () => {
      const number = (sql: string) => this.#store.prepare<[], number>(sql).pluck().get();
      return [
        number("SELECT coalesce(max(id), 0) FROM rollouts"),
        number("SELECT count(*) FROM rollouts"),
        number("SELECT coalesce(max(step), -1) FROM steps"),
        number("SELECT coalesce(sum(length(metrics) + length(timing)), 0) FROM steps"),
        number("SELECT count(*) FROM validations"),
      ].join("-");
    });
  }

  /** Numbers of rollouts by phase and step. */
  counts(): { phase: RolloutPhase; step: number; n: number }[] {
    return reading(this.#file, () =>
      this.#store
        .prepare<[], { phase: RolloutPhase; step: number; n: number }>(
          "SELECT phase, step, count(*) n FROM rollouts GROUP BY phase, step ORDER BY step, phase",
        )
        .all(),
    );
  }

  /** Ordered by step, phase, scenario and member; read lazily. */
  *rollouts(filter: RolloutFilter = {}): Generator<SeenRollout> {
    const { phase, from, to, ids } = filter;
    const where = [
      ...(phase ? ["phase = @phase"] : []),
      ...(from === undefined ? [] : ["step >= @from"]),
      ...(to === undefined ? [] : ["step <= @to"]),
      ...(ids ? ["id IN (SELECT value FROM json_each(@ids))"] : []),
    ];
    const statement = reading(this.#file, () =>
      this.#store.prepare<[object], Raw>(
        `SELECT id, phase, step, scenario, member, reward, success, ending "end", turns,
           completion_tokens completionTokens, training_reward trainingReward, advantage, explanation,
           trajectory, tokens
         FROM rollouts ${where.length > 0 ? `WHERE ${where.join(" AND ")}` : ""}
         ORDER BY step, phase, scenario, member`,
      ),
    );
    const rows = statement.iterate({ phase, from, to, ids: ids && JSON.stringify(ids) });
    try {
      while (true) {
        const next = reading(this.#file, () => {
          const { done, value } = rows.next();
          if (done) return undefined;
          const { trajectory, tokens, success, ...row } = value;
          return { ...row, success: success === 1, trajectory: unpack({ trajectory, tokens }) };
        });
        if (!next) return;
        yield next;
      }
    } finally {
      rows.return?.();
    }
  }

  /** Steps of the checkpoints in the folder, in rising order. */
  checkpointSteps(): number[] {
    return this.#checkpoints.list();
  }

  /** Checkpoints in the folder; a damaged one comes with its error message. */
  async checkpoints(): Promise<{ step: number; damage: string | null }[]> {
    const seen = [];
    for (const step of this.checkpointSteps()) {
      const folder = this.#checkpoints.pathOf(step);
      const damage = await verifyCheckpoint(folder).then(
        () => null,
        (error: unknown) => messageOf(error),
      );
      // A running process may have deleted it in the meantime: that is no damage.
      if (damage === null || existsSync(folder)) seen.push({ step, damage });
    }
    return seen;
  }

  /** Whether a process of this machine is working on the run. */
  running(): boolean {
    return ownerOf(this.folder) !== undefined;
  }

  logs(): LogTail[] {
    const folder = join(this.folder, "logs");
    if (!existsSync(folder)) return [];
    return readdirSync(folder)
      .filter((name) => name.endsWith(".log") && statSync(join(folder, name)).size > 0)
      .map((name) => ({ name, lines: endOf(join(folder, name), LOG_BYTES).trimEnd().split("\n").slice(-LOG_LINES) }));
  }

  close(): void {
    this.#store.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
