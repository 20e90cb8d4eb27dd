/** The learner's process: exchanges requests and answers with it, and ends it when it falls silent. */

import { HoneError, messageOf } from "../util/errors.js";
import { awakeTime } from "../util/time-limit.js";
import { learnerEnvironment } from "./environment.js";
import { LearnerDied, LearnerFailed, LearnerOutOfMemory, LearnerRefused } from "./errors.js";
import { PROTOCOL_VERSION, type Report, type RequestName, readReport } from "./protocol.js";
import { type ChildEnd, PythonChild } from "./python-child.js";
import type { Deadlines, OnProgress } from "./types.js";

/** A cold start imports PyTorch from a slow disk; a heartbeat may wait for a long copy that holds the interpreter. */
const DEADLINES: Deadlines = { start: 120, beat: 60, progress: 900 };

/** Interval of the deadline checks, and time allowed for a regular exit, in milliseconds. */
const WATCH_MS = 500;
const CLOSE_MS = 5000;
/** Lines of the log in an error. */
const TAIL_LINES = 20;

export interface ChildSettings {
  readonly python: string;
  readonly threads: number;
  readonly logFile: string;
  /** ggml's base library of the engine; see `learnerEnvironment`. */
  readonly ggml?: string | undefined;
  readonly deadlines?: Partial<Deadlines>;
  /** The Python module to run; replaced in tests. */
  readonly module?: readonly string[];
  /** GPUs that it sees, in place of this process's. */
  readonly cards?: string | undefined;
}

/** When memory runs out the kernel ends the largest process with SIGKILL, which leaves no message. */
const endedBy = (signal: NodeJS.Signals) =>
  signal === "SIGKILL"
    ? "was killed: if nobody did that, memory ran out, and less --micro-batch-tokens or --gradient-checkpointing helps"
    : `was ended by ${signal}`;

interface Pending {
  readonly id: number;
  readonly onProgress: OnProgress | undefined;
  resolve(result: unknown): void;
  reject(error: Error): void;
}

export class Child {
  readonly #process: PythonChild;
  readonly #python: string;
  readonly #logFile: string;
  readonly #deadlines: Deadlines;
  readonly #hello: Promise<void>;
  #greeted = false;
  #greet: () => void = () => undefined;
  #refuse: (error: Error) => void = () => undefined;
  #pending: Pending | undefined;
  #lastId = 0;
  #ended: Error | undefined;
  #closing = false;
  /** When its last signs came, by {@link awakeTime}. */
  #sign = { beat: awakeTime(), progress: awakeTime() };
  readonly #watch: NodeJS.Timeout;

  constructor({ python, threads, ggml, logFile, deadlines, module = ["-m", "learner"], cards }: ChildSettings) {
    this.#python = python;
    this.#logFile = logFile;
    this.#deadlines = { ...DEADLINES, ...deadlines };
    this.#hello = new Promise((resolve, reject) => {
      this.#greet = resolve;
      this.#refuse = reject;
    });
    // Callers awaiting it get the rejection; there may be no caller yet when the child dies.
    this.#hello.catch(() => undefined);
    this.#process = new PythonChild({
      python,
      args: module,
      logFile,
      env: { ...learnerEnvironment(threads, ggml), ...(cards === undefined ? {} : { CUDA_VISIBLE_DEVICES: cards }) },
      onLine: (line) => this.#read(line),
      onEnd: (end) => this.#end(this.#reasonOf(end)),
    });
    this.#watch = setInterval(() => this.#checkDeadlines(), WATCH_MS);
    this.#watch.unref();
  }

  get pid(): number | undefined {
    return this.#process.pid;
  }

  /** Sends a request and waits for its result. One at a time. Rejects with the errors of errors.ts. */
  async call(name: RequestName, body: object, onProgress?: OnProgress): Promise<unknown> {
    await this.#hello;
    if (this.#ended) throw this.#ended;
    if (this.#pending) throw new Error(`the learner is busy; ${name} must wait for the request before it`);
    const id = ++this.#lastId;
    this.#sign.progress = awakeTime();
    const result = new Promise<unknown>((resolve, reject) => {
      this.#pending = { id, onProgress, resolve, reject };
    });
    this.#process.send({ id, type: name, ...body });
    return result;
  }

  /** Ends the process. Closing its control pipe asks it to exit; if it does not, its whole process group is killed. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#process.finish();
    await Promise.race([this.#process.ended, new Promise((done) => setTimeout(done, CLOSE_MS).unref())]);
    this.#process.kill();
    await this.#process.ended;
  }

  #read(line: string): void {
    let message: Report;
    try {
      message = readReport(line);
    } catch (error) {
      this.#fail(new LearnerFailed(`the learner sent what is no message: ${messageOf(error)} (log: ${this.#logFile})`));
      return;
    }
    this.#sign.beat = awakeTime();
    if (message.type === "beat" && !message.progress) return;
    this.#sign.progress = this.#sign.beat;
    if (message.type === "beat") return;
    if (message.type === "hello") {
      if (message.version !== PROTOCOL_VERSION) {
        const spoken = `protocol ${message.version}, hone speaks ${PROTOCOL_VERSION}`;
        this.#fail(new LearnerRefused(`the learner speaks ${spoken}: its files belong to another version of hone`));
        return;
      }
      this.#greeted = true;
      this.#greet();
      return;
    }
    const pending = this.#pending;
    if (message.type === "progress") {
      if (pending?.id === message.id) pending.onProgress?.(message);
      return;
    }
    if (message.type === "error" && message.id === null) {
      this.#fail(new LearnerFailed(`the learner did not understand hone: ${message.message}`));
      return;
    }
    // An answer to no request: a defect, but none that loses work.
    if (!pending || pending.id !== message.id) return;
    this.#pending = undefined;
    if (message.type === "done") pending.resolve(message.result);
    else if (message.code === "refused") pending.reject(new LearnerRefused(message.message));
    else if (message.code === "memory") pending.reject(new LearnerOutOfMemory(message.message));
    else pending.reject(new LearnerFailed(`${message.message} (log: ${this.#logFile})`));
  }

  #checkDeadlines(): void {
    const now = awakeTime();
    const silent = (since: number) => (now - since) / 1000;
    const { start, beat, progress } = this.#deadlines;
    if (this.#ended || this.#closing) return;
    if (!this.#greeted) {
      if (silent(this.#sign.beat) > start) this.#fail(this.#died(`did not start within ${start} seconds`));
    } else if (silent(this.#sign.beat) > beat) {
      this.#fail(this.#died(`gave no sign of life for ${beat} seconds and was ended`));
    } else if (this.#pending && silent(this.#sign.progress) > progress) {
      this.#fail(this.#died(`made no progress for ${progress} seconds and was ended`));
    }
  }

  #reasonOf(end: ChildEnd): Error {
    if (end.error) {
      const why = end.error.code === "ENOENT" ? "there is no such program" : end.error.message;
      return new HoneError(
        `the learner could not be started with ${this.#python}: ${why}; give a Python with --python`,
      );
    }
    if (this.#closing) return this.#died("was closed");
    return this.#died(end.signal === null ? `ended with code ${end.code}` : endedBy(end.signal));
  }

  /** Gives the child up. */
  #fail(error: Error): void {
    this.#end(error);
    this.#process.kill();
  }

  /** Accepts no more requests. The first reason given is the one that callers get. */
  #end(error: Error): void {
    this.#ended ??= error;
    clearInterval(this.#watch);
    const pending = this.#pending;
    this.#pending = undefined;
    pending?.reject(this.#ended);
    this.#refuse(this.#ended);
  }

  #died(what: string): LearnerDied {
    return new LearnerDied(what, this.#process.tail(TAIL_LINES), this.#logFile);
  }
}
