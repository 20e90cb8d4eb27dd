/** Time by phase of a step. */

export type ClockPhase = "rollouts" | "rewards" | "swap" | "update" | "checkpoint" | "validation";

const PHASES: readonly ClockPhase[] = ["rollouts", "rewards", "swap", "update", "checkpoint", "validation"];

export interface ClockTiming {
  /** By phase, and in all. */
  readonly seconds: Record<ClockPhase | "total", number>;
  /** Seconds in which what is learnt was checked by a second path. */
  readonly checks: number;
}

export class StepClock {
  #started = performance.now();
  #seconds = new Map<ClockPhase, number>();
  #checks = 0;

  /** Adds the time of `work` to a phase. */
  async measure<T>(phase: ClockPhase, work: () => Promise<T>): Promise<T> {
    const started = performance.now();
    try {
      return await work();
    } finally {
      const seconds = (performance.now() - started) / 1000;
      this.#seconds.set(phase, (this.#seconds.get(phase) ?? 0) + seconds);
    }
  }

  addChecks(seconds: number): void {
    this.#checks += seconds;
  }

  /** Adds the time of `work` to the checks, beside its phase. */
  async check<T>(work: () => T | Promise<T>): Promise<T> {
    const started = performance.now();
    try {
      return await work();
    } finally {
      this.addChecks((performance.now() - started) / 1000);
    }
  }

  /** Since the last lap. */
  read(now = performance.now()): ClockTiming {
    const phases = PHASES.map((phase) => [phase, this.#seconds.get(phase) ?? 0] as const);
    const seconds = Object.fromEntries(phases) as Record<ClockPhase, number>;
    return { seconds: { ...seconds, total: (now - this.#started) / 1000 }, checks: this.#checks };
  }

  /** The same, and starts a new lap: time between two laps belongs to one of them. */
  lap(): ClockTiming {
    const now = performance.now();
    const timing = this.read(now);
    this.#started = now;
    this.#seconds = new Map();
    this.#checks = 0;
    return timing;
  }
}
