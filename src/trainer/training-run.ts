/** A run that is open: its folder, its learner, and the active adapter of its model. */
import { type MetricsLine, metricsLine, type ValidationRow } from "../core/run/records.js";
import type { Scenario } from "../core/task/task.js";
import { settlePending, use, wakePending } from "../core/train/settle.js";
import { StepClock } from "../core/train/step-clock.js";
import { HoneError } from "../core/util/errors.js";
import { checkScenarios } from "./checked.js";
import type { Model } from "./model.js";
import type { Opened } from "./opened.js";
import { summarise, type TrainSummary } from "./summary.js";
import type { OpenTask } from "./task.js";

const LOOP = "a second loop";

/** Internal access for `train`; not part of the public API. */
export let openedOf: (run: TrainingRun) => Opened;

/**
 * Has the model play the adapter in force, before a program plays what it likes. A step that failed may have left the engine asleep,
 * with the adapter of a step that was taken back, or a step that is committed and not settled.
 */
export async function playInForce({ parts, guards }: Pick<Opened, "parts" | "guards">): Promise<void> {
  const { store } = parts.run;
  const settling = { ...parts, guards: guards(undefined) };
  await wakePending(settling);
  while (store.unsettledStep()) await settlePending(settling, new StepClock());
  await use(settling, store.lastStep());
}

/** Created by {@link openRun}. `for await (const line of run)` makes its steps; or a program does, with {@link train}. */
export class TrainingRun implements AsyncIterable<MetricsLine> {
  readonly #opened: Opened;
  readonly #since = performance.now();
  #underWay = false;
  #closed = false;

  constructor(opened: Opened) {
    this.#opened = opened;
  }

  static {
    openedOf = (run) => {
      run.#checkIdle("train()");
      return run.#opened;
    };
  }

  get model(): Model {
    return this.#opened.model;
  }

  get task(): OpenTask {
    return this.#opened.plan.task;
  }

  get name(): string {
    return this.#opened.parts.run.name;
  }

  /** The run folder, which `hone view`, `hone eval` and other commands read. */
  get folder(): string {
    return this.#opened.parts.run.folder;
  }

  /** Number of completed steps. */
  get step(): number {
    return this.#opened.parts.run.store.lastStep().step;
  }

  /** The GGUF file of the active adapter; null before the first update. */
  get adapter(): string | null {
    const { run } = this.#opened.parts;
    return run.adapterOf(run.store.lastStep())?.path ?? null;
  }

  /** The metrics of all steps so far. */
  metrics(): MetricsLine[] {
    const rows = this.#opened.parts.run.store.steps();
    return rows.flatMap((row) => (row.metrics && row.timing ? [metricsLine(row)] : []));
  }

  /**
   * Makes the steps that are left of the run's `steps`, as `hone train` does: plays the task's scenarios, rewards, updates,
   * validates now and then, and stops where nothing is learnt. Gives the metrics of each step once it is done. Left early, the
   * run stands after its last whole step.
   *
   * @throws HoneError when the run cannot go on, or is interrupted; finished steps are kept
   */
  async *[Symbol.asyncIterator](): AsyncGenerator<MetricsLine, void, undefined> {
    this.#checkIdle(LOOP);
    this.#underWay = true;
    try {
      const { madeSteps } = await import("./made-steps.js");
      for await (const row of madeSteps(this.#opened)) yield metricsLine(row);
    } catch (error) {
      const { keepsModel, plan } = this.#opened;
      // Its program may go on with it.
      if (keepsModel && plan.settings.staleness === 0) await playInForce(this.#opened).catch(() => undefined);
      throw error;
    } finally {
      this.#underWay = false;
    }
  }

  #checkIdle(what: string): void {
    if (this.#closed) throw new HoneError("the run was closed; openRun() opens it again");
    if (this.#underWay) throw new HoneError(`${what}: the run is making its steps (for await); use one or the other`);
    if (what !== LOOP && this.#opened.plan.settings.staleness > 0) {
      throw new HoneError(`${what}: with staleness the run makes its steps itself (for await); leave it out`);
    }
  }

  /**
   * Plays validation scenarios with the active adapter and stores the result with the step. The best validated adapter
   * is `best` to other commands and is never deleted. A second call in the same step returns the stored result.
   */
  async validate(
    scenarios: readonly Scenario[],
    { signal = new AbortController().signal }: { signal?: AbortSignal } = {},
  ): Promise<ValidationRow["result"]> {
    this.#checkIdle("validate()");
    checkScenarios("validate()", "first", scenarios);
    const { validate } = await import("../core/train/saved-play.js");
    const parts = { ...this.#opened.parts, guards: this.#opened.guards(undefined), signal };
    const { store } = parts.run;
    const { step: last } = store.lastStep();
    const stored = store.validations().find(({ step }) => step === last);
    if (stored) return stored.result;
    await playInForce(this.#opened);
    const { grade } = this.#opened.plan.settings.accuracy === "judge" ? await this.#opened.rewards() : {};
    return (await validate(parts, store.lastStep(), scenarios, grade)).result;
  }

  /** The result so far; `seconds` are those since it was opened. */
  summary(): TrainSummary {
    return summarise(this.#opened.parts.run, (performance.now() - this.#since) / 1000);
  }

  /** Ends the learner and releases the run's folder. A model that was given to {@link openRun} stays open. */
  close(): Promise<void> {
    this.#closed = true;
    return this.#opened.close();
  }
}
