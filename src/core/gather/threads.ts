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
import type { GroupJob, GroupResult, RolloutMessage, ThreadDemand, WorkerMessage, WorkerSettings } from "./job.js";

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

/** A thread that has started. */
interface Started {
  readonly port: MessagePort;
  /** Since when it owes an answer, by `awakeTime`. */
  asked: number | undefined;
}

/** Settings that a thread keeps. The adapter is not one of them: the engine's owner changes it. */
function keyOf({ player, ...settings }: WorkerSettings): string {
  return JSON.stringify({ ...settings, player: player.kind === "engine" ? { ...player, adapter: null } : player });
}

/** The threads of one gathering, or of several one after another. */
export class Threads {
  readonly #pool: Piscina<GroupJob, GroupResult>;
  /** Rejects where no thread has started, and one ended with an error: then none will. */
  readonly #neverStarts: Promise<never>;
  readonly #started = new Map<number, Started>();
  readonly #key: string;
  readonly #made: Pick<Wanted, "count" | "concurrency">;
  #heard: Pick<Wanted, "onMessage" | "onNote">;

  constructor(file: string, { settings, count, concurrency, onMessage, onNote }: Wanted) {
    this.#key = keyOf(settings);
    this.#made = { count, concurrency };
    this.#heard = { onMessage, onNote };
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
        if (this.#started.size === 0) reject(error);
      });
    });
    this.#neverStarts.catch(() => undefined);
  }

  /** Plays for another gathering. False where that needs other threads, or what rollouts have left behind blocks one of these. */
  async serve({ settings, count, concurrency, onMessage, onNote }: Wanted): Promise<boolean> {
    if (this.#made.count < count || this.#made.concurrency < concurrency || this.#key !== keyOf(settings)) return false;
    const answers = await this.#demand("answer", "message", ANSWER_MS);
    if (answers) this.#heard = { onMessage, onNote };
    return answers;
  }

  /** Asks each thread that has started for an answer. @returns for how many seconds each has owed one */
  ask(): Map<number, number> {
    const now = awakeTime();
    const silent = new Map<number, number>();
    for (const [thread, started] of this.#started) {
      if (started.asked === undefined) started.port.postMessage("answer");
      started.asked ??= now;
      silent.set(thread, (now - started.asked) / 1000);
    }
    return silent;
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

  /** From now on reports of rollouts are ignored. */
  rest(): void {
    this.#heard = { ...this.#heard, onMessage: () => undefined };
  }

  /** Has the threads close what they hold, and ends them. One that is stuck is ended with what it holds all the same. */
  async close(): Promise<void> {
    this.rest();
    await this.#demand("close", "close", HELD_MS);
    for (const { port } of this.#started.values()) port.close();
    await this.#pool.destroy();
  }

  /** Demands something of each thread. @returns whether all have done it in that time */
  #demand(what: ThreadDemand, done: "message" | "close", milliseconds: number): Promise<boolean> {
    const all = [...this.#started.values()].map(({ port }) => {
      port.postMessage(what);
      return new Promise((resolve) => port.once(done, resolve));
    });
    return within(milliseconds, all);
  }

  #receive(message: WorkerMessage): void {
    if (message.kind === "started") {
      const { thread, port } = message;
      const started: Started = { port, asked: undefined };
      this.#started.set(thread, started);
      port.on("message", () => {
        started.asked = undefined;
      });
      port.once("close", () => this.#started.delete(thread));
      // Does not keep the process alive.
      port.unref();
    } else if (message.kind === "note") {
      const known = noted.has(message.text);
      noted.add(message.text);
      if (!known) this.#heard.onNote?.(message.text);
    } else this.#heard.onMessage(message);
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

  /** The kept threads where they suit, else new ones. Either `keep` or their own `close` is called at the end. */
  async take(wanted: Wanted): Promise<Threads> {
    const kept = this.#kept;
    this.#kept = undefined;
    if (await kept?.serve(wanted)) return kept as Threads;
    await kept?.close();
    return new Threads(this.#file, wanted);
  }

  /** Keeps threads on which nothing is played for a later gathering. */
  async keep(threads: Threads): Promise<void> {
    threads.rest();
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
