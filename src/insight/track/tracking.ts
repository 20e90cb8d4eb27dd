/**
 * The rows that trackers are sent, and when: one for each step with its validation, once it is complete. The run's store
 * has all of them, so a tracker that was down, or is added later, is sent the rows it lacks.
 */
import { join } from "node:path";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import {
  type MetricsLine,
  metricsLine,
  type RunRecord,
  type StepRow,
  type ValidationRow,
} from "../../core/run/records.js";
import { figuresOf, validationFigures, withZeros } from "./figures.js";
import type { TrackerName } from "./names.js";
import { type AdapterMessage, type Row, TrackerProcess } from "./process.js";
import { Sample } from "./sample.js";

/** Milliseconds without a sign of life that a tracker has for its end: after all steps, and after an interruption. */
const PATIENCE = { whole: 60_000, broken: 10_000 };

export interface TrackedRun {
  readonly folder: string;
  readonly project: string;
  readonly record: RunRecord;
  /** Committed before this call. */
  readonly steps: readonly StepRow[];
  readonly validations: readonly ValidationRow[];
  /** Whether a validation follows this step; 0: the start is validated. */
  readonly validated: (step: number) => boolean;
}

interface Open {
  line?: MetricsLine;
  validation?: ValidationRow;
  sample?: Sample;
}

export class Tracking {
  readonly #run: TrackedRun;
  readonly #trackers: readonly TrackerProcess[];
  readonly #patience: typeof PATIENCE;
  readonly #open = new Map<number, Open>();
  #playing: { phase: string; step: number } = { phase: "", step: -1 };
  /** Names of counters in the rows so far. */
  readonly #counted = new Set<string>();
  /** The start has been validated, or is not to be. */
  #started: boolean;

  /** @param patience replaced in tests, which a busy machine must not break */
  constructor(
    names: readonly TrackerName[],
    run: TrackedRun,
    python: string,
    log: (line: string) => void,
    patience = PATIENCE,
  ) {
    this.#run = run;
    this.#patience = patience;
    const { folder, project, record } = run;
    const { name, created, options, contents } = record;
    this.#started = !run.validated(0) || run.validations.some(({ step }) => step === 0);
    const config = {
      ...options,
      ...Object.fromEntries(Object.entries(contents).map(([key, text]) => [`contents/${key}`, text])),
    };
    const about = { folder: join(folder, "track"), run: name, project, created, config };
    const history = this.#history();
    this.#trackers = names.map(
      (tracker) =>
        new TrackerProcess({
          name: tracker,
          python,
          about,
          history,
          log,
          logFile: join(folder, "logs", `${tracker}.log`),
        }),
    );
  }

  phase(step: number, phase: string): void {
    // Others may be played meanwhile.
    if (phase === "update") return;
    this.#playing = { phase, step };
    // The rows of earlier steps are complete, but of those that were played ahead and are not learnt from yet.
    if (phase === "rollouts") this.#flush((open, { line }) => open < step && (open === 0 || line !== undefined));
  }

  rollout(trajectory: Trajectory): void {
    const { phase, step } = this.#playing;
    if (phase !== "rollouts") return;
    const open = this.#of(step);
    open.sample ??= new Sample(this.#run.record.name, step);
    open.sample.add(trajectory);
  }

  rewarded(group: readonly Trajectory[], reward: { readonly rewards?: readonly number[] }): void {
    this.#open.get(this.#playing.step)?.sample?.rewarded(group, reward.rewards);
  }

  step(line: MetricsLine): void {
    this.#of(line.step).line = line;
  }

  validation(row: ValidationRow): void {
    if (row.step === 0) this.#started = true;
    this.#of(row.step).validation = row;
  }

  /** @param whole all steps were done: trackers then have time for large files */
  async close(whole: boolean, adapters: readonly AdapterMessage[]): Promise<void> {
    this.#flush((step, { line, validation }) => {
      // A step whose validation is still to come gets its row when the run continues.
      if (step === 0) return true;
      return this.#started && line !== undefined && (validation !== undefined || !this.#run.validated(step));
    });
    const patience = whole ? this.#patience.whole : this.#patience.broken;
    await Promise.all(this.#trackers.map((tracker) => tracker.close(adapters, patience)));
  }

  #row(step: number, { line, validation, sample }: Open): Row {
    const figures = { ...(line ? figuresOf(line) : {}), ...(validation ? validationFigures(validation) : {}) };
    return { step, values: withZeros(figures, this.#counted), rollouts: sample?.table() };
  }

  #of(step: number): Open {
    const open = this.#open.get(step) ?? {};
    this.#open.set(step, open);
    return open;
  }

  #flush(over: (step: number, open: Open) => boolean): void {
    for (const [step, open] of [...this.#open].sort(([a], [b]) => a - b)) {
      if (!over(step, open)) continue;
      this.#open.delete(step);
      const row = this.#row(step, open);
      if (Object.keys(row.values).length > 0) for (const tracker of this.#trackers) tracker.add(row);
    }
  }

  /** The steps before this call. The last one stays open while its validation is still to come. */
  #history(): Row[] {
    const { steps, validations, validated } = this.#run;
    const rows: Row[] = [];
    for (const row of steps) {
      const validation = validations.find(({ step }) => step === row.step);
      const open: Open = {
        ...(row.metrics ? { line: metricsLine(row) } : {}),
        ...(validation ? { validation } : {}),
      };
      if (row.step === steps.at(-1)?.step && row.step > 0 && (!this.#started || (validated(row.step) && !validation))) {
        this.#open.set(row.step, open);
      } else if (row.metrics || validation) rows.push(this.#row(row.step, open));
    }
    return rows;
  }
}
