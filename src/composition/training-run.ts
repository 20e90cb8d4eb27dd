/** A run that a program steps through: its folder, its learner, and the active adapter of its model. */
import type { LibraryOption } from "../config/config.js";
import { type MetricsLine, metricsLine, type ValidationRow } from "../run/records.js";
import type { Scenario } from "../tasks/task.js";
import type { LearnerUpdater } from "../train/updater.js";
import type { Steps } from "./begin.js";
import type { Given, Listener } from "./given.js";
import type { Model } from "./model.js";
import type { OpenTask } from "./task.js";

export type RunOptions = Given<LibraryOption<"run">> & Listener & { readonly signal?: AbortSignal };

/** Internal access for `train`; not part of the public API. */
export let partsOf: (run: TrainingRun) => Steps;

/** Created by {@link openRun}. */
export class TrainingRun {
  readonly model: Model;
  readonly task: OpenTask;
  readonly #parts: Steps;
  readonly #updater: LearnerUpdater;

  constructor(model: Model, task: OpenTask, parts: Steps, updater: LearnerUpdater) {
    this.model = model;
    this.task = task;
    this.#parts = parts;
    this.#updater = updater;
  }

  static {
    partsOf = (run) => run.#parts;
  }

  get name(): string {
    return this.#parts.run.name;
  }

  /** The run folder, which `hone view`, `hone eval` and other commands read. */
  get folder(): string {
    return this.#parts.run.folder;
  }

  /** Number of completed steps. */
  get step(): number {
    return this.#parts.run.store.lastStep().step;
  }

  /** The GGUF file of the active adapter; null before the first update. */
  get adapter(): string | null {
    const { run } = this.#parts;
    return run.adapterOf(run.store.lastStep())?.path ?? null;
  }

  /** The metrics of all steps so far. */
  metrics(): MetricsLine[] {
    return this.#parts.run.store.steps().flatMap((row) => (row.metrics && row.timing ? [metricsLine(row)] : []));
  }

  /**
   * Plays validation scenarios with the active adapter and stores the result with the step. The best validated adapter
   * is `best` to other commands and is never deleted. A second call in the same step returns the stored result.
   */
  async validate(
    scenarios: readonly Scenario[],
    { signal = new AbortController().signal }: { signal?: AbortSignal } = {},
  ): Promise<ValidationRow["result"]> {
    const { playContextOf, validate } = await import("../train/saved-play.js");
    const { run, policy, view, settings } = this.#parts;
    const playing = playContextOf({ run, policy, view, settings, signal });
    return (await validate(playing, run.store.lastStep(), scenarios)).result;
  }

  /** Ends the learner and releases the run's folder. The model stays open. */
  async close(): Promise<void> {
    await this.#updater.close();
    this.#parts.run.close();
  }
}
