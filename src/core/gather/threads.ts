/**
 * Worker threads of rollouts. A thread loads the task and opens its environment once, which takes a third of a second or
 * more: the steps of a run take longer than that, but not much with a small model. So threads outlive a gathering of
 * rollouts where their owner wants it, unless a rollout or its tools failed, or ran out of time.
 */
import { join } from "node:path";
import type { MessagePort } from "node:worker_threads";
import { Piscina } from "piscina";
import { packageRoot } from "../util/paths.js";
import { awakeTime } from "../util/time-limit.js";
import type { GroupJob, GroupResult, RolloutMessage, WorkerMessage, WorkerSettings } from "./job.js";

/** Milliseconds that threads have to close what they hold: a process may take three seconds. */
const HELD_MS = 5000;

/** Milliseconds in which an idle thread answers. */
const ANSWER_MS = 1000;

/** The code of a thread, a program of its own: tasks, engines and agents, which this room does not know, meet there. */
const workerFile = join(packageRoot, "dist/src/hone/worker.js");

/**
 * Workers load their module by `import`: Node aborts the whole process when a thread is ended while `require`, which
 * piscina tries first, loads an ES module.
 */
const asynchronousLoading = process.allowedNodeEnvironmentFlags.has("--experimental-require-module")
  ? ["--no-experimental-require-module"]
  : [];

export interface Wanted {
  readonly settings: WorkerSettings;
  /** Number of threads. */
  readonly count: number;
  /** Concurrent rollouts over all threads. */
  readonly concurrency: number;
  readonly onMessage: (message: RolloutMessage) => void;
  /** Told of each thing once, in all gatherings of the process. */
  readonly onNote: ((text: string) => void) | undefined;
}

const noted = new Set<string>();

/** Whether the promises are kept in that time. Meanwhile this process stays alive, which idle threads would not effect. */
export async function within(milliseconds: number, promises: Iterable<Promise<unknown>>): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<boolean>((done) => {
    // A timer may fire first where this thread was kept from what arrived in time: that is read before it counts.
    timer = setTimeout(() => setImmediate(() => done(false)), milliseconds);
  });
  const all = Promise.all(promises).then(() => true);
  return Promise.race([all, late]).finally(() => clearTimeout(timer));
}

/** How a thread is asked whether its code blocks it. */
interface Pulse {
  readonly port: MessagePort;
  /** When it was asked what it has not answered yet, by `awakeTime`. */
  asked: number | undefined;
}

/** Something that a thread holds: its port, which closes with it, or with its thread. */
interface Held {
  readonly port: MessagePort;
  readonly closed: Promise<void>;
}

/** Settings that a thread keeps. The adapter is not one of them: the engine's owner changes it. */
function keyOf({ player, ...settings }: WorkerSettings): string {
  return JSON.stringify({ ...settings, player: player.kind === "engine" ? { ...player, adapter: null } : player });
}

/** The threads of one gathering. Either `release` or `close` is called at its end. */
export class Threads {
  readonly #owner: RolloutThreads;
  readonly #pool: Piscina<GroupJob, GroupResult>;
  /** Rejects where no thread has started, and one ended with an error: then none will. */
  readonly #neverStarts: Promise<never>;
  readonly #held = new Set<Held>();
  /** Of the threads that have started. */
  readonly #pulses = new Map<number, Pulse>();
  readonly #key: string;
  readonly #made: Pick<Wanted, "count" | "concurrency">;
  #onMessage: Wanted["onMessage"] = () => undefined;
  #onNote: Wanted["onNote"];

  constructor(owner: RolloutThreads, file: string, { settings, count, concurrency }: Wanted) {
    this.#owner = owner;
    this.#key = keyOf(settings);
    this.#made = { count, concurrency };
    this.#pool = new Piscina<GroupJob, GroupResult>({
      filename: file,
      workerData: settings,
      execArgv: asynchronousLoading,
      // The least busy thread takes the next group.
      minThreads: count,
      maxThreads: count,
      // Limits concurrency: each group on a thread has a running rollout, except for the one prepared ahead.
      concurrentTasksPerWorker: concurrency + 1,
      maxQueue: Number.POSITIVE_INFINITY,
      // Workers do asynchronous work between tasks; blocking on atomics would stop it.
      atomics: "disabled",
    });
    this.#pool.on("message", (message: WorkerMessage) => this.#receive(message));
    this.#neverStarts = new Promise((_, reject) => {
      // The death of a worker that has started is reported through the promises of its groups.
      this.#pool.on("error", (error) => {
        if (this.#pulses.size === 0) reject(error);
      });
    });
    this.#neverStarts.catch(() => undefined);
  }

  /** Whether they have those settings, and none is blocked by what its rollouts have left behind. */
  async suit({ settings, count, concurrency }: Wanted): Promise<boolean> {
    if (this.#made.count < count || this.#made.concurrency < concurrency || this.#key !== keyOf(settings)) return false;
    const answers = [...this.#pulses.values()].map(({ port }) => {
      port.postMessage(null);
      return new Promise((answered) => port.once("message", answered));
    });
    return within(ANSWER_MS, answers);
  }

  /** Asks each thread that has started for an answer. @returns for how many seconds each has owed one */
  ask(): Map<number, number> {
    const now = awakeTime();
    const silent = new Map<number, number>();
    for (const [thread, pulse] of this.#pulses) {
      if (pulse.asked === undefined) pulse.port.postMessage(null);
      pulse.asked ??= now;
      silent.set(thread, (now - pulse.asked) / 1000);
    }
    return silent;
  }

  serve({ onMessage, onNote }: Pick<Wanted, "onMessage" | "onNote">): this {
    this.#onMessage = onMessage;
    this.#onNote = onNote;
    return this;
  }

  /**
   * Plays a group, whose rollouts are reported by messages.
   * @param alone on a thread that plays nothing else meanwhile
   * @throws Error when the thread ends before the group
   */
  play(job: GroupJob, { alone }: { readonly alone: boolean }): Promise<GroupResult> {
    // A task with an abort signal has its thread to itself: that is piscina's rule.
    const own = alone ? { signal: new AbortController().signal } : {};
    return Promise.race([this.#pool.run(job, { ...own, transferList: [job.begin] }), this.#neverStarts]);
  }

  /** Ends one thread with all that it plays; another one takes its place. */
  end(thread: number): void {
    void this.#pool.threads.find(({ threadId }) => threadId === thread)?.terminate();
  }

  /** To be called when nothing is played: keeps the threads for a later gathering. */
  async release(): Promise<void> {
    this.#onMessage = () => undefined;
    await this.#owner.keep(this);
  }

  /** Has the threads close what they hold, and ends them. One that is stuck is ended with what it holds all the same. */
  async close(): Promise<void> {
    this.#onMessage = () => undefined;
    for (const { port } of this.#held) port.postMessage(null);
    await within(
      HELD_MS,
      [...this.#held].map(({ closed }) => closed),
    );
    for (const { port } of [...this.#held, ...this.#pulses.values()]) port.close();
    await this.#pool.destroy();
  }

  #receive(message: WorkerMessage): void {
    if (message.kind === "holds") {
      const { port } = message;
      const held = { port, closed: new Promise<void>((done) => port.once("close", () => done())) };
      this.#held.add(held);
      void held.closed.then(() => this.#held.delete(held));
    } else if (message.kind === "started") {
      const { thread, port } = message;
      const pulse: Pulse = { port, asked: undefined };
      this.#pulses.set(thread, pulse);
      port.on("message", () => {
        pulse.asked = undefined;
      });
      port.once("close", () => this.#pulses.delete(thread));
      // Does not keep the process alive.
      port.unref();
    } else if (message.kind === "note") {
      const known = noted.has(message.text);
      noted.add(message.text);
      if (!known) this.#onNote?.(message.text);
    } else this.#onMessage(message);
  }
}

/** The owner of threads that gatherings use one after another. Without `close` what the threads hold is never closed. */
export class RolloutThreads {
  readonly #file: string;
  #kept: Threads | undefined;
  #closed = false;

  /** @param file the code of a thread; default hone's own */
  constructor(file = workerFile) {
    this.#file = file;
  }

  /** The kept threads where they suit, else new ones. */
  async take(wanted: Wanted): Promise<Threads> {
    const kept = this.#kept;
    this.#kept = undefined;
    if (kept && (await kept.suit(wanted))) return kept.serve(wanted);
    await kept?.close();
    return new Threads(this, this.#file, wanted).serve(wanted);
  }

  /** For threads that were taken here. */
  async keep(threads: Threads): Promise<void> {
    if (this.#kept || this.#closed) await threads.close();
    else this.#kept = threads;
  }

  async close(): Promise<void> {
    this.#closed = true;
    const kept = this.#kept;
    this.#kept = undefined;
    await kept?.close();
  }
}
