/**
 * Gives way to other programs: llama.cpp's threads wait for each other by spinning, so a decoder with as many threads
 * as cores nearly stops when another program holds one of them (see threads.ts). While the engine decodes, the governor
 * measures once a second how many cores others use, and sets the threads to what is left. Lanes of one thread each need
 * none of this.
 */
import { cpus } from "node:os";
import { performance } from "node:perf_hooks";
import type { NativeEngine } from "./addon.js";
import { usableCores } from "./threads.js";

/** CPU time in milliseconds, from any start. */
export interface CpuSample {
  readonly at: number;
  /** Of all cores together, by whomever. */
  readonly busy: number;
  /** Of this process, all its threads together. */
  readonly own: number;
}

export function sampleCpu(): CpuSample {
  const busy = cpus().reduce((sum, { times }) => sum + times.user + times.nice + times.sys + times.irq, 0);
  const { user, system } = process.cpuUsage();
  return { at: performance.now(), busy, own: (user + system) / 1000 };
}

/** Cores that other processes used between two samples, in the mean. */
export function othersCores(from: CpuSample, to: CpuSample): number {
  return Math.max(0, (to.busy - from.busy - (to.own - from.own)) / (to.at - from.at));
}

/** What others may use of a core that still gets a thread: short work in the background is no reason to lose a core. */
const TOLERATED = 0.35;
/** Intervals in a row that must have room before a thread is added. Giving way takes one: it costs less than waiting. */
const PATIENCE = 3;

export interface Pace {
  readonly threads: number;
  /** Intervals in a row that had room for more. */
  readonly roomy: number;
}

/**
 * @param free cores that others left in the last interval
 * @param chosen threads to decode with on a machine of one's own
 */
export function nextPace({ threads, roomy }: Pace, free: number, chosen: number): Pace {
  const fitting = Math.min(chosen, Math.max(1, Math.floor(free + TOLERATED)));
  if (fitting > threads && roomy + 1 < PATIENCE) return { threads, roomy: roomy + 1 };
  return { threads: fitting, roomy: 0 };
}

const INTERVAL_MS = 1000;
/** An interval in which the engine had nothing to do for longer than this share of it says little. */
const IDLE_SHARE = 0.5;
/** Giving way is told when it has lasted so long, and not more often than this. */
const TELL_AFTER_MS = 5000;
const TELL_EVERY_MS = 60_000;

/** Says what happens to the threads without repeating itself; the end is told when the beginning was. */
class Teller {
  readonly #chosen: number;
  readonly #say: (line: string) => void;
  #since: number | undefined;
  #toldAt = Number.NEGATIVE_INFINITY;
  #told = false;

  constructor(chosen: number, say: (line: string) => void) {
    this.#chosen = chosen;
    this.#say = say;
  }

  hear(at: number, threads: number, others: number): void {
    if (threads === this.#chosen) {
      if (this.#told) this.#say(`the cores are free again: decoding with ${threads} threads`);
      this.#told = false;
      this.#since = undefined;
      return;
    }
    this.#since ??= at;
    if (this.#told || at - this.#since < TELL_AFTER_MS || at - this.#toldAt < TELL_EVERY_MS) return;
    this.#told = true;
    this.#toldAt = at;
    const held = Math.max(1, Math.round(others));
    const cores = held === 1 ? "a core" : `${held} cores`;
    this.#say(`other programs keep ${cores} busy: decoding with ${threads} of ${this.#chosen} threads`);
  }
}

export type Governed = Pick<NativeEngine, "stats" | "setThreads">;

export class ThreadGovernor {
  readonly #engine: Governed;
  readonly #chosen: number;
  readonly #cores: number;
  readonly #sample: () => CpuSample;
  readonly #teller: Teller;
  readonly #timer: NodeJS.Timeout;
  #pace: Pace;
  #held = false;
  #last: (CpuSample & { readonly waited: number }) | undefined;

  /** @param cores of the machine, all of them usable by this process */
  constructor(
    engine: Governed,
    settings: { readonly threads: number; readonly cores: number },
    say: (line: string) => void = () => undefined,
    sample: () => CpuSample = sampleCpu,
  ) {
    this.#engine = engine;
    this.#chosen = settings.threads;
    this.#cores = settings.cores;
    this.#sample = sample;
    this.#teller = new Teller(settings.threads, say);
    this.#pace = { threads: settings.threads, roomy: 0 };
    // A process that has nothing else to do may end.
    this.#timer = setInterval(() => this.#look(), INTERVAL_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Decodes with so many threads whatever others do; undefined: with all again, giving way as before. */
  hold(threads: number | undefined): void {
    this.#held = threads !== undefined;
    this.#last = undefined;
    this.#pace = { threads: threads ?? this.#chosen, roomy: 0 };
    this.#engine.setThreads(this.#pace.threads);
  }

  #look(): void {
    const { sequences, seconds } = this.#engine.stats();
    if (sequences.running === 0 || this.#held) {
      this.#last = undefined;
      return;
    }
    const last = this.#last;
    const now = { ...this.#sample(), waited: seconds.waiting * 1000 };
    this.#last = now;
    if (!last || now.waited - last.waited > IDLE_SHARE * (now.at - last.at)) return;
    const others = othersCores(last, now);
    const before = this.#pace.threads;
    this.#pace = nextPace(this.#pace, this.#cores - others, this.#chosen);
    if (this.#pace.threads !== before) this.#engine.setThreads(this.#pace.threads);
    this.#teller.hear(now.at, this.#pace.threads, others);
  }
}

/**
 * A governor where it can help. What others use cannot be seen through an affinity mask or a container's quota: the
 * counters are those of the whole machine, and the process may use only some of it.
 */
export function governorOf(
  engine: Governed,
  threads: number,
  say?: (line: string) => void,
): ThreadGovernor | undefined {
  const cores = usableCores();
  if (threads < 2 || cores !== cpus().length) return undefined;
  return new ThreadGovernor(engine, { threads, cores }, say);
}
