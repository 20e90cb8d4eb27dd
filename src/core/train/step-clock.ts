/** Time by phase of a step. */

export type ClockPhase = "rollouts" | "rewards" | "swap" | "update" | "checkpoint" | "validation";

const PHASES: readonly ClockPhase[] = ["rollouts", "rewards", "swap", "update", "checkpoint", "validation"];

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

  /** Seconds of the phases in which what is learnt was checked by a second path. */
  get checks(): number {
    return this.#checks;
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

  /** Seconds by phase and in all since the last lap. */
  read(now = performance.now()): Record<ClockPhase | "total", number> {
    const phases = PHASES.map((phase) => [phase, this.#seconds.get(phase) ?? 0] as const);
    return { ...(Object.fromEntries(phases) as Record<ClockPhase, number>), total: (now - this.#started) / 1000 };
  }

  /** The same, and starts a new lap: time between two laps belongs to one of them. */
  lap(): Record<ClockPhase | "total", number> {
    const now = performance.now();
    const seconds = this.read(now);
    this.#started = now;
    this.#seconds = new Map();
    this.#checks = 0;
    return seconds;
  }
}
