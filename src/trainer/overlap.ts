/**
 * The training loop with `--staleness N`: step k + 1 is played while the learner computes the update of step k. Two sequences, each
 * in the order of the steps, wait for each other:
 *
 * - the engine loads the policy after each step as soon as that is committed and the steps before it are played, settles the step
 *   (settle.ts), validates it where that is due, and plays the steps that this policy plays (version.ts);
 * - the learner updates on each step when it is played and the one before is committed.
 *
 * Which policy plays which step follows from the step alone, and rollouts follow from their seeds: timing changes nothing but time.
 * A step is committed as without it, before the engine has loaded its policy: N + 1 steps may be committed and not settled. Rollouts
 * that were played ahead are saved like others; a process that goes on plays what is missing with the same policies.
 */
import { EventEmitter, once } from "node:events";
import { PassThrough } from "node:stream";
import type { StepRow } from "../core/run/records.js";
import { pruneCheckpoints } from "../core/train/earlier.js";
import type { LoopParts } from "../core/train/parts.js";
import { isDue, validateHeldOut } from "../core/train/saved-play.js";
import { settleNext, use } from "../core/train/settle.js";
import { learnStages, playStages } from "../core/train/stages.js";
import { learnStep, type PlayedStep, playStep } from "../core/train/step.js";
import { StepClock } from "../core/train/step-clock.js";
import { stepsPlayedBy, versionOf } from "../core/train/version.js";

/** Values by step, each given once, which may be awaited before. */
class BySteps<T> {
  readonly #values = new Map<number, T>();
  readonly #given = new EventEmitter();
  readonly #failed = new AbortController();

  set(step: number, value: T): void {
    this.#values.set(step, value);
    this.#given.emit(String(step));
  }

  /** @throws as told to `fail`, where the value was not given before */
  async get(step: number): Promise<T> {
    const { signal } = this.#failed;
    // The signal's own reason in place of an AbortError.
    if (!this.#values.has(step)) await once(this.#given, String(step), { signal }).catch(() => signal.throwIfAborted());
    return this.#values.get(step) as T;
  }

  /** {@link get}, once: the value is not kept. */
  async take(step: number): Promise<T> {
    const value = await this.get(step);
    this.#values.delete(step);
    return value;
  }

  /** No more values will come. */
  fail(error: unknown): void {
    this.#failed.abort(error);
  }
}

interface Shared {
  readonly committed: BySteps<StepRow>;
  readonly played: BySteps<PlayedStep>;
  readonly clockOf: (step: number) => StepClock;
  /** Rows of the steps of this call. */
  readonly settled: PassThrough;
}

/**
 * Gives each step once it is settled; the next ones go on meanwhile. Left early, what is under way is stopped.
 *
 * @throws HoneError when the run cannot continue; all committed steps are kept
 */
export async function* stepsAhead(parts: LoopParts): AsyncGenerator<StepRow, void> {
  const clocks = new Map<number, StepClock>();
  const clockOf = (step: number) => {
    const clock = clocks.get(step) ?? new StepClock();
    clocks.set(step, clock);
    return clock;
  };
  const settled = new PassThrough({ objectMode: true });
  const shared: Shared = { committed: new BySteps(), played: new BySteps(), clockOf, settled };
  for (const row of parts.run.store.steps()) shared.committed.set(row.step, row);
  const stop = new AbortController();
  const left = new AbortController();
  let first: { readonly error: unknown } | undefined;
  const failed = (error: unknown) => {
    first ??= { error };
  };
  const signal = AbortSignal.any([parts.signal, left.signal]);
  const playing = playAhead({ ...parts, signal: AbortSignal.any([signal, stop.signal]) }, shared).catch((error) => {
    // The update that runs now is finished: it does not depend on what failed.
    failed(error);
    shared.played.fail(error);
  });
  const learning = learnInOrder({ ...parts, signal }, shared).catch((error) => {
    failed(error);
    shared.committed.fail(error);
    stop.abort(error);
  });
  const ended = Promise.all([playing, learning]).then(() => settled.end());
  try {
    yield* settled as AsyncIterable<StepRow>;
    if (first) throw first.error;
  } finally {
    left.abort();
    await ended;
  }
}

/** All that the engine does, from the first policy on that plays a step which is not committed. */
async function playAhead(parts: LoopParts, { committed, played, clockOf, settled }: Shared): Promise<void> {
  const { run, settings } = parts;
  const { steps, staleness } = settings;
  const { store } = run;
  const last = store.lastStep().step;
  const unsettled = store.unsettledStep()?.step ?? last + 1;
  const validateAt = (row: StepRow) => validateHeldOut(parts, row, clockOf(row.step + 1));
  const laps = new StepClock();

  if (last > 0 && store.validations().length === 0) {
    const start = store.firstStep();
    await use(parts, start);
    await validateAt(start);
  }
  for (let version = versionOf(last + 1, staleness); ; version++) {
    const row = await committed.get(version);
    let at = row;
    if (version < unsettled) await use(parts, row);
    else {
      const now = () => {
        const { seconds, checks } = clockOf(version).read();
        return { seconds: { ...seconds, total: laps.lap().seconds.total }, checks };
      };
      at = await settleNext(parts, row, clockOf(version), version <= last ? () => undefined : now);
    }
    if (isDue(settings, version)) await validateAt(row);
    pruneCheckpoints(run, settings.keep, staleness);
    if (version >= unsettled) settled.write(at);
    for (const step of stepsPlayedBy(version, staleness, steps).filter((step) => step > last)) {
      played.set(step, await playStep(playStages(parts, step, row, clockOf(step))));
    }
    // After the first steps: learning begins at once, and errors show early.
    if (version === 0 && store.validations().length === 0) await validateAt(row);
    if (version >= steps) return;
  }
}

async function learnInOrder(parts: LoopParts, { committed, played, clockOf }: Shared): Promise<void> {
  const { run, settings } = parts;
  for (let at = run.store.lastStep(); at.step < settings.steps; ) {
    const step = at.step + 1;
    const now = await played.take(step);
    const version = await committed.get(versionOf(step, settings.staleness));
    at = await learnStep(learnStages(parts, at, version, clockOf(step)), now);
    committed.set(step, at);
  }
}
