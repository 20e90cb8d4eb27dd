/**
 * Time limits for code of the user's on this thread. It may take too long or wait for what never comes: then the work is
 * rejected. It may also block the thread, for which only the process can be ended: a thread of its own does that
 * (watcher.ts). And it may end the process itself, which is reported.
 *
 * A worker thread that is blocked is the concern of whoever started it.
 */
import { closeSync, writeSync } from "node:fs";
import { join } from "node:path";
import { isMainThread, Worker } from "node:worker_threads";
import { HoneError, messageOf } from "./errors.js";
import { packageRoot } from "./paths.js";
import { printable } from "./text.js";
import { TimeLimit } from "./time-limit.js";

export interface TimeAllowed {
  /** For messages: "the scenarios of the task sums". */
  readonly what: string;
  readonly seconds: number;
  /** What allows more: "--task-timeout". */
  readonly remedy: string;
}

interface Work {
  readonly what: string;
  /** Undefined where it may take as long as it likes. */
  readonly allowed?: TimeAllowed;
  /** Undefined where it is synchronous. */
  readonly reject?: (error: Error) => void;
}

/** To the watcher: milliseconds until it has to act, and its message; without them the work is over. */
export interface Watched {
  readonly id: number;
  readonly limit?: { readonly milliseconds: number; readonly message: string };
}

/** The main thread's function that the watcher calls, with the work's id and where its code is. */
export const OVERDUE = "hone.overdue";

/** Milliseconds that a thread which is not blocked has to reject the work by itself. */
const AHEAD_MS = 2000;

/** The innermost is the last. */
const underWay = new Map<number, Work>();
let lastId = 0;
let watcher: Worker | undefined;
let isListening = false;
let mayExit = false;
let tell = (message: string): void => void writeSync(2, `hone: ${printable(message)}\n`);

const late = ({ what, seconds, remedy }: TimeAllowed) =>
  `${what} did not end within ${seconds} s; ${remedy} allows more`;

/**
 * @public The program loads this file alone, not all of the room, before it knows what to do.
 *
 * From now on the process may end by `process.exit` without anybody being blamed for it.
 */
export function allowExit(): void {
  mayExit = true;
}

/** @param listener called once, while the process ends, when code of the user's ends it or is ended with it */
export function onLost(listener: (message: string) => void): void {
  tell = listener;
}

function lost(message: string): void {
  mayExit = true;
  process.exitCode = 1;
  tell(message);
}

/** For a state in which nothing can go on, nor be closed: tells it, and ends the process. */
export function endProcess(message: string): never {
  lost(message);
  process.exit(1);
}

function listen(): void {
  isListening = true;
  // Nothing is left that could settle the work. The outer work gets the error of the inner.
  process.on("beforeExit", () => {
    const work = [...underWay.values()].findLast(({ reject }) => reject);
    work?.reject?.(new HoneError(`${work.what} never ends: it waits for a promise that nothing settles any more`));
    // What goes on after that may come to such an end itself, which Node tells only after something has happened.
    if (work) setImmediate(() => undefined);
  });
  process.on("exit", (code) => {
    const work = [...underWay.values()].at(-1);
    if (work && !mayExit) lost(`${work.what} ended the process: its code calls process.exit(${code})`);
  });
}

/** Rejects the innermost work: what its code leaves behind would end the process, as if by itself. */
function leftBehind(error: unknown): void {
  const work = [...underWay.values()].findLast(({ reject }) => reject);
  const [, place = ""] = error instanceof Error ? (error.stack ?? "").split("\n") : [];
  // One of hone's own is told as such, with its place.
  const isOwn = error instanceof Error && place.includes(join(packageRoot, "dist"));
  const told = `${work?.what} left an error that nothing caught: ${messageOf(error)}`;
  work?.reject?.(isOwn ? error : new HoneError(told, { cause: error }));
}

const ERRORS = ["unhandledRejection", "uncaughtException"] as const;

function startWatcher(): Worker {
  const worker = new Worker(join(packageRoot, "dist/src/core/util/watcher.js"));
  worker.unref();
  (globalThis as Record<symbol, unknown>)[Symbol.for(OVERDUE)] = (id: number, place: string) => {
    const allowed = underWay.get(id)?.allowed;
    if (!allowed) return;
    lost(`${late(allowed)} (it blocks its thread${place})`);
    // Node writes a line about the watcher's debugger.
    process.once("exit", () => closeSync(2));
    process.exit(1);
  };
  return worker;
}

const asynchronous = () => [...underWay.values()].some(({ reject }) => reject);

function begin(id: number, work: Work): void {
  if (isMainThread && work.reject && !asynchronous()) for (const name of ERRORS) process.on(name, leftBehind);
  underWay.set(id, work);
  if (!isMainThread) return;
  if (!isListening) listen();
  const { allowed } = work;
  if (!allowed) return;
  watcher ??= startWatcher();
  const limit = { milliseconds: allowed.seconds * 1000 + AHEAD_MS, message: late(allowed) };
  watcher.postMessage({ id, limit } satisfies Watched);
}

function end(id: number): void {
  const { allowed, reject } = underWay.get(id) ?? {};
  underWay.delete(id);
  if (isMainThread && reject && !asynchronous()) for (const name of ERRORS) process.off(name, leftBehind);
  if (allowed) watcher?.postMessage({ id } satisfies Watched);
}

/**
 * Runs asynchronous work.
 *
 * @param allowed its time limit where it has one, which the caller keeps: this only ends a thread that is blocked
 * @throws HoneError when it waits for what never comes; an end of the process meanwhile is reported
 */
export function guarded<T>(what: string, work: () => T | PromiseLike<T>, allowed?: TimeAllowed): Promise<T> {
  const id = ++lastId;
  return new Promise<T>((resolve, reject) => {
    begin(id, { what, reject, ...(allowed ? { allowed } : {}) });
    Promise.resolve(work()).then(resolve, reject);
  }).finally(() => end(id));
}

/**
 * Runs work of the user's code, which may be asynchronous, as {@link guarded}.
 *
 * @param work gets a function to call at signs of progress: the time counts from the last one
 * @throws HoneError also when it takes too long
 */
export function timed<T>(allowed: TimeAllowed, work: (alive: () => void) => T | PromiseLike<T>): Promise<T> {
  const id = ++lastId;
  const limit = new TimeLimit(allowed.seconds, () => new HoneError(late(allowed)));
  return new Promise<T>((resolve, reject) => {
    const alive = () => {
      limit.renew();
      begin(id, { what: allowed.what, allowed, reject });
    };
    limit.signal.addEventListener("abort", () => reject(limit.signal.reason), { once: true });
    alive();
    Promise.resolve(work(alive)).then(resolve, reject);
  }).finally(() => {
    limit.clear();
    end(id);
  });
}

/** Runs work of the user's code that is synchronous. */
export function timedNow<T>(allowed: TimeAllowed, work: () => T): T {
  const id = ++lastId;
  begin(id, { what: allowed.what, allowed });
  try {
    return work();
  } finally {
    end(id);
  }
}
