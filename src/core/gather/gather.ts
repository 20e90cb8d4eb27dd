/**
 * Plays many groups of rollouts at once on worker threads and gathers their trajectories. Failures are kept with their
 * message and counted against a limit; a hanging rollout is reported with the operation it waits for; stopping keeps the
 * finished rollouts.
 *
 * A group goes to a thread as a whole, since its members share their prompt, but its members begin one by one, as other
 * rollouts end, so that the last of a group do not leave the engine half empty. One more group than needed is on a thread, so
 * that the next rollout has its prompt ready.
 *
 * Every rollout's seed derives from (seedName, step, scenario, index). The engine batches rollouts as they come, and the
 * shape of a batch moves logits by rounding: with several rollouts at once the same seed may therefore sample another
 * token where two are nearly as likely. One at a time they repeat exactly after the same ones before, from whose prompts theirs
 * may go on.
 */
import { availableParallelism } from "node:os";
import { MessageChannel, type MessagePort } from "node:worker_threads";
import { TASK_SECONDS } from "../config/defaults.js";
import type { Waiting } from "../rollout/rollout.js";
import type { RolloutFailure, Trajectory } from "../rollout/trajectory.js";
import type { Scenario } from "../task/task.js";
import { HoneError, messageOf } from "../util/errors.js";
import { deriveSeed } from "../util/random.js";
import { onAbort } from "../util/signals.js";
import { awakeTime } from "../util/time-limit.js";
import { type GroupJob, PREPARING, type RolloutMessage, TURN_TO_BEGIN, type WorkerSettings } from "./job.js";
import { RolloutThreads, type Threads, within } from "./threads.js";

export interface GatherOptions {
  readonly settings: WorkerSettings;
  readonly scenarios: readonly Scenario[];
  /** Rollouts of each scenario. */
  readonly groupSize: number;
  /** Names from which the seeds are derived. */
  readonly seedName: string | number;
  readonly step: number;
  /** Concurrent rollouts over all workers. */
  readonly concurrency: number;
  /** Worker threads; by default as many as run without taking a core from the engine. */
  readonly workers?: number;
  /** Threads of earlier gatherings, which are used again, and kept for later ones. By default they end with this one. */
  readonly threads?: RolloutThreads | undefined;
  /** Tolerated failures: a count, or below 1 a share of all rollouts. Default 0. */
  readonly maxExceptions?: number;
  /** Seconds beyond the time limit of the task's code after which a thread that does not answer counts as blocked. Default 10. */
  readonly graceSeconds?: number;
  /** Rollouts of an earlier attempt: they are part of the result and not played again. */
  readonly have?: readonly Trajectory[];
  /** Stops early when aborted; finished rollouts are returned. */
  readonly signal?: AbortSignal;
  readonly onTrajectory?: (trajectory: Trajectory) => void;
  readonly onFailure?: (failure: RolloutFailure) => void;
  /** Told of each thing once, in all gatherings of the process. */
  readonly onNote?: (text: string) => void;
  /** Called with every group as soon as none of its rollouts is left to be played, unless all of them failed. */
  readonly onGroup?: (group: readonly Trajectory[]) => void;
}

export interface Gathered {
  /** Finished trajectories by scenario, in the order of the scenarios; members in order of their index. */
  groups: Trajectory[][];
  failures: RolloutFailure[];
  /** Whether it was stopped before everything was played. */
  interrupted: boolean;
  seconds: number;
}

/** Milliseconds that a thread has to end a group after its last rollout. */
const END_MS = 1000;

/** Number of times a group is played again because another group ended its worker. */
const RETRIES = 1;

/** A rollout that blocks its thread. */
interface Hung {
  readonly culprit: string;
  readonly reason: HoneError;
}

/** State of the members of one group. */
interface OpenGroup {
  readonly scenario: Scenario;
  readonly left: Map<string, GroupJob["members"][number]>;
  readonly done: Trajectory[];
  /** Why its thread was ended, when one of its rollouts hung. */
  hung: Hung | undefined;
  tries: number;
}

/** A rollout on a thread that may not begin yet. */
interface Ready {
  readonly id: string;
  /** Port on which its thread receives the ids of rollouts that may begin. */
  readonly begin: MessagePort;
}

const inOrder = (members: readonly Trajectory[]) => [...members].sort((a, b) => a.index - b.index);

export async function gather(options: GatherOptions): Promise<Gathered> {
  return new Gathering(options).run();
}

class Gathering {
  readonly #options: GatherOptions;
  readonly #groups: OpenGroup[];
  readonly #byRollout = new Map<string, OpenGroup>();
  /** Groups that are on no thread yet, in order. */
  readonly #pending: OpenGroup[];
  #ready: Ready[] = [];
  readonly #underWay = new Set<string>();
  /** What each rollout on a thread waits for, with the time of the report, by `awakeTime`. */
  readonly #waiting = new Map<string, { thread: number; waiting: Waiting; since: number }>();
  /** The last operation that each thread reported: when it reports no more, that operation blocks it. */
  readonly #lastOfThread = new Map<number, string>();
  readonly #failures: RolloutFailure[] = [];
  /** Groups on threads. */
  readonly #playing = new Set<Promise<void>>();
  /** Undefined where nothing is left to be played. */
  #threads: Threads | undefined;
  readonly #finished: Promise<"all" | "interrupted">;
  #finish!: (how: "all" | "interrupted") => void;
  #giveUp!: (error: unknown) => void;
  /** A rollout or its tools failed, or ran out of time: what it began may still be at work. */
  #leftovers = false;
  /** What threads report after the end is ignored. */
  #over = false;

  constructor(options: GatherOptions) {
    this.#options = options;
    this.#finished = new Promise((resolve, reject) => {
      this.#finish = (how) => {
        this.#over = true;
        resolve(how);
      };
      this.#giveUp = (error) => {
        this.#over = true;
        reject(error);
      };
    });
    this.#groups = options.scenarios.map((scenario) => {
      const members = Array.from({ length: options.groupSize }, (_, index) => {
        const id = `${scenario.id}/${index}`;
        return { id, index, seed: deriveSeed(options.seedName, options.step, scenario.id, index) };
      });
      const done = (options.have ?? []).filter(
        (one) => one.scenario.id === scenario.id && one.index < options.groupSize,
      );
      const indices = new Set(done.map(({ index }) => index));
      const left = new Map(members.filter(({ index }) => !indices.has(index)).map((member) => [member.id, member]));
      return { scenario, left, done, hung: undefined, tries: 0 };
    });
    for (const group of this.#groups) {
      for (const id of group.left.keys()) {
        if (this.#byRollout.has(id))
          throw new HoneError(`two scenarios have the id ${group.scenario.id}; ids must be unique`);
        this.#byRollout.set(id, group);
      }
    }
    this.#pending = this.#groups.filter(({ left }) => left.size > 0);
  }

  async run(): Promise<Gathered> {
    const { signal, threads: kept } = this.#options;
    const started = performance.now();
    using _interrupting = onAbort(signal, () => this.#finish("interrupted"));
    const owner = kept ?? new RolloutThreads();
    const watchdog = setInterval(() => this.#watch(), 1000);
    let clean = false;
    try {
      this.#threads = await this.#take(owner);
      for (const group of this.#groups) {
        if (group.left.size === 0) this.#reportIfComplete(group);
      }
      this.#checkEnd();
      const how = await this.#finished;
      // The last message of a group comes before its sequences are closed.
      clean = how === "all" && !this.#leftovers && (await within(END_MS, this.#playing));
      return {
        groups: this.#groups.map(({ done }) => inOrder(done)),
        failures: this.#failures,
        interrupted: how === "interrupted",
        seconds: (performance.now() - started) / 1000,
      };
    } finally {
      clearInterval(watchdog);
      // Leftovers end with their thread.
      if (clean && this.#threads) await owner.keep(this.#threads);
      else await this.#threads?.close();
      if (!kept) await owner.close();
    }
  }

  async #take(owner: RolloutThreads): Promise<Threads | undefined> {
    if (this.#pending.length === 0) return undefined;
    const { settings, concurrency, groupSize, onNote } = this.#options;
    const workers = this.#options.workers ?? Math.max(1, Math.min(4, availableParallelism() - 1));
    const count = Math.min(workers, Math.ceil(concurrency / groupSize), this.#pending.length);
    return owner.take({ settings, count, concurrency, onMessage: (message) => this.#onMessage(message), onNote });
  }

  /** Starts rollouts up to the concurrency limit. */
  #fill(): void {
    if (this.#over) return;
    for (;;) {
      if (this.#ready.length === 0) {
        const group = this.#pending.shift();
        if (!group) return;
        const playing = this.#play(group)
          .catch((error: unknown) => this.#giveUp(error))
          .finally(() => this.#playing.delete(playing));
        this.#playing.add(playing);
      }
      if (this.#underWay.size >= this.#options.concurrency) return;
      const next = this.#ready.shift();
      if (!next) return;
      this.#underWay.add(next.id);
      next.begin.postMessage(next.id);
    }
  }

  async #play(group: OpenGroup): Promise<void> {
    const members = [...group.left.values()];
    const { port1, port2 } = new MessageChannel();
    this.#ready.push(...members.map(({ id }) => ({ id, begin: port1 })));
    try {
      const { player } = this.#options.settings;
      const adapter = player.kind === "engine" ? player.adapter : null;
      const { step } = this.#options;
      const job: GroupJob = { scenario: group.scenario, step, members, adapter, begin: port2 };
      // A repeated group cannot be ended by a neighbour again.
      const result = await (this.#threads as Threads).play(job, { alone: group.tries > 0 });
      if (result) this.#giveUp(new HoneError(result.setupError));
    } catch (error) {
      // The thread died: through a rollout of this group if it was ended for hanging, else possibly through a neighbour.
      const { hung } = group;
      group.hung = undefined;
      this.#ready = this.#ready.filter(({ begin }) => begin !== port1);
      for (const id of group.left.keys()) this.#underWay.delete(id);
      if (hung) this.#fail({ id: hung.culprit, error: messageOf(hung.reason) });
      if (this.#over || group.left.size === 0) return;
      if (hung || group.tries < RETRIES) {
        if (!hung) group.tries++;
        this.#pending.unshift(group);
        this.#fill();
        return;
      }
      const reason = messageOf(error).replace(
        /^worker exited with code: (\d+)$/,
        "its thread was ended: code of the task calls process.exit($1)",
      );
      for (const id of [...group.left.keys()]) this.#fail({ id, error: reason });
    } finally {
      port1.close();
    }
  }

  /** An error of a listener (a full disk, for example) ends the gathering. */
  #onMessage(message: RolloutMessage): void {
    if (this.#over) return;
    try {
      this.#read(message);
    } catch (error) {
      this.#giveUp(error);
    }
  }

  #read(message: RolloutMessage): void {
    if (message.kind === "waiting") {
      const { id, thread, waiting } = message;
      if (!this.#byRollout.get(id)?.left.has(id)) return;
      this.#waiting.set(id, { thread, waiting, since: awakeTime() });
      if (waiting.for !== TURN_TO_BEGIN) this.#lastOfThread.set(thread, id);
    } else if (message.kind === "done") {
      const group = this.#takeOut(message.trajectory.id);
      if (!group) return;
      if (["deadline", "tool_failure"].includes(message.trajectory.end)) this.#leftovers = true;
      group.done.push(message.trajectory);
      this.#options.onTrajectory?.(message.trajectory);
      this.#reportIfComplete(group);
      this.#checkEnd();
    } else this.#fail(message.failure);
  }

  /** Takes a rollout out of the list. Undefined when it was before. */
  #takeOut(id: string): OpenGroup | undefined {
    this.#waiting.delete(id);
    this.#underWay.delete(id);
    this.#ready = this.#ready.filter((one) => one.id !== id);
    const group = this.#byRollout.get(id);
    return group?.left.delete(id) ? group : undefined;
  }

  #fail(failure: RolloutFailure): void {
    const group = this.#over ? undefined : this.#takeOut(failure.id);
    if (!group) return;
    this.#failures.push(failure);
    this.#leftovers = true;
    const total = this.#options.scenarios.length * this.#options.groupSize;
    const limit = this.#options.maxExceptions ?? 0;
    const borne = limit < 1 ? Math.floor(limit * total) : limit;
    if (this.#failures.length > borne) {
      const count = `${this.#failures.length} of ${total} rollouts failed (--max-exceptions ${limit})`;
      this.#giveUp(new HoneError(`${count}; the last, ${failure.id}: ${failure.error}`));
      return;
    }
    this.#options.onFailure?.(failure);
    this.#reportIfComplete(group);
    this.#checkEnd();
  }

  #reportIfComplete({ left, done }: OpenGroup): void {
    if (left.size === 0 && done.length > 0) this.#options.onGroup?.(inOrder(done));
  }

  #checkEnd(): void {
    if (this.#groups.every((group) => group.left.size === 0)) this.#finish("all");
    else this.#fill();
  }

  /** Ends a thread that does not answer for longer than code of the task may take: such code blocks it. */
  #watch(): void {
    const { graceSeconds = 10, settings } = this.#options;
    const { toolSeconds, taskSeconds = TASK_SECONDS } = settings.limits;
    for (const [thread, silent] of this.#threads?.ask() ?? []) {
      const last = this.#lastOfThread.get(thread) ?? "";
      const waits = this.#waiting.get(last);
      const prepares = waits?.waiting.for === PREPARING;
      if (silent < (prepares ? taskSeconds : toolSeconds) + graceSeconds) continue;
      const seconds = waits && ((awakeTime() - waits.since) / 1000).toFixed(0);
      if (prepares) {
        this.#giveUp(new HoneError(`${PREPARING} are not there after ${seconds} s (--task-timeout ${taskSeconds})`));
      } else if (waits) {
        const { turn, for: what } = waits.waiting;
        const when = turn === 0 ? "before its first turn" : `in turn ${turn}`;
        const reason = new HoneError(`rollout ${last} hangs: ${when} it has waited ${seconds} s for ${what}`);
        this.#endThread(thread, { culprit: last, reason });
      } else this.#endThread(thread);
      return;
    }
  }

  /**
   * Ends a thread; its other rollouts are played again.
   *
   * @param by the rollout that blocks it: of all that look stuck the one that reported last. Undefined where that has ended, and has
   *   left something behind
   */
  #endThread(thread: number, by?: Hung): void {
    for (const [id, waits] of this.#waiting) {
      if (waits.thread === thread) this.#waiting.delete(id);
    }
    this.#lastOfThread.delete(thread);
    const guilty = by && this.#byRollout.get(by.culprit);
    if (guilty) guilty.hung = by;
    this.#threads?.end(thread);
  }
}
