/**
 * Yields to other programs: llama.cpp's threads wait for each other by spinning, so a decoder with as many threads
 * as cores nearly stops when another program occupies one of them (see threads.ts). While the engine decodes, the governor
 * measures once a second how many cores others use, and limits the threads to the rest. Lanes of one thread each need no
 * governor.
 */
import { type CpuInfo, cpus, getPriority } from "node:os";
import { performance } from "node:perf_hooks";
import type { NativeEngine } from "./addon.js";
import { usableCores } from "./threads.js";

/** CPU time in milliseconds, relative to any start. */
export interface CpuSample {
  readonly at: number;
  /** Of all cores together, by whoever competes with this process for them. */
  readonly busy: number;
  /** Of this process, all its threads together. */
  readonly own: number;
}

/**
 * A program of a lower priority than usual ("nice") uses what the engine leaves, so it occupies no core, unless this
 * process has such a priority itself.
 */
export function sampleCpu(priority = getPriority(), cores: readonly Pick<CpuInfo, "times">[] = cpus()): CpuSample {
  const busy = cores.reduce(
    (sum, { times }) => sum + times.user + (priority > 0 ? times.nice : 0) + times.sys + times.irq,
    0,
  );
  const { user, system } = process.cpuUsage();
  return { at: performance.now(), busy, own: (user + system) / 1000 };
}

/** Mean number of cores that other processes used between two samples. */
export function othersCores(from: CpuSample, to: CpuSample): number {
  return Math.max(0, (to.busy - from.busy - (to.own - from.own)) / (to.at - from.at));
}

/** Share of a core that others may use before it counts as busy: short background work should not cost a core. */
const TOLERATED = 0.35;
/** Number of consecutive intervals with room before a thread is added. Yielding takes one, since waiting costs more. */
const PATIENCE = 3;

export interface Pace {
  readonly threads: number;
  /** Number of consecutive intervals with room for more threads. */
  readonly roomy: number;
}

/**
 * @param free cores that others left unused in the last interval
 * @param chosen number of threads without other load
 */
export function nextPace({ threads, roomy }: Pace, free: number, chosen: number): Pace {
  const fitting = Math.min(chosen, Math.max(1, Math.floor(free + TOLERATED)));
  if (fitting > threads && roomy + 1 < PATIENCE) return { threads, roomy: roomy + 1 };
  return { threads: fitting, roomy: 0 };
}

const INTERVAL_MS = 1000;
/** An interval is ignored when the engine was idle for more than this share of it. */
const IDLE_SHARE = 0.5;

export type Governed = Pick<NativeEngine, "stats" | "setThreads">;

export interface Governor {
  /** Fixes the number of threads regardless of other load; undefined: all of them, yielding as before. */
  hold(threads: number | undefined): void;
  stop(): void;
}

/**
 * @param chosen number of threads without other load
 * @param cores of the machine, all usable by this process
 */
export function govern(
  engine: Governed,
  { threads: chosen, cores }: { readonly threads: number; readonly cores: number },
  log: (line: string) => void = () => undefined,
  sample: () => CpuSample = () => sampleCpu(),
): Governor {
  let pace: Pace = { threads: chosen, roomy: 0 };
  let held = false;
  let told = false;
  let last: (CpuSample & { readonly waited: number }) | undefined;
  const look = () => {
    const { sequences, seconds } = engine.stats();
    const from = last;
    last = sequences.running === 0 || held ? undefined : { ...sample(), waited: seconds.waiting * 1000 };
    if (!from || !last || last.waited - from.waited > IDLE_SHARE * (last.at - from.at)) return;
    const before = pace.threads;
    pace = nextPace(pace, cores - othersCores(from, last), chosen);
    const { threads } = pace;
    if (threads !== before) engine.setThreads(threads);
    if (threads >= before || told) return;
    told = true;
    log(`other programs use the cores too: decoding with ${threads} of ${chosen} threads while they do`);
  };
  // Does not keep an otherwise finished process alive.
  const timer = setInterval(look, INTERVAL_MS).unref();
  return {
    hold(threads) {
      held = threads !== undefined;
      last = undefined;
      pace = { threads: threads ?? chosen, roomy: 0 };
      engine.setThreads(pace.threads);
    },
    stop: () => clearInterval(timer),
  };
}

/**
 * A governor where it can help. With an affinity mask or a container's quota the load of others is unknown: the counters
 * are those of the whole machine, of which the process may use only a part.
 */
export function governorOf(engine: Governed, threads: number, log?: (line: string) => void): Governor | undefined {
  const cores = usableCores();
  return threads < 2 || cores !== cpus().length ? undefined : govern(engine, { threads, cores }, log);
}
