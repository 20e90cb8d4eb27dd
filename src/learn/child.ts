/**
 * The learner's process: starts it, exchanges messages with it, and guarantees that it ends.
 *
 * It leads a process group of its own, so that compile workers it starts can be ended with it. Three things end the
 * group: `close`, the exit of this process in any way that runs code, and (when this process is killed outright) the
 * child's guardian, which sees its control pipe close (native/learner/lifeline.py).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, existsSync, mkdirSync, openSync, readSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { HoneError, hone, messageOf, packageRoot } from "../util/index.js";
import { LearnerDied, LearnerFailed, LearnerOutOfMemory, LearnerRefused } from "./errors.js";
import { PROTOCOL_VERSION, type Report, type RequestName, readReport, request } from "./protocol.js";
import type { Deadlines, OnProgress } from "./types.js";

/** A cold start imports PyTorch from a slow disk; a heartbeat may wait for a long copy that holds the interpreter. */
const DEADLINES: Deadlines = { start: 120, beat: 60, progress: 900 };

/** Interval of the deadline checks, and time allowed for a regular exit, in milliseconds. */
const WATCH_MS = 500;
/** A check later than this means that this process itself was suspended or busy. */
const OVERSLEPT_MS = 2000;
const CLOSE_MS = 5000;
/** After a child's exit its last messages may still be under way. */
const DRAIN_MS = 500;
const TAIL_BYTES = 8192;
const TAIL_LINES = 20;

export interface ChildSettings {
  readonly python: string;
  readonly threads: number;
  readonly logFile: string;
  readonly deadlines?: Partial<Deadlines>;
  /** The Python module to run; replaced in tests. */
  readonly module?: readonly string[];
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
  readonly #process: ChildProcess;
  readonly #control: Writable;
  readonly #logFile: string;
  readonly #logStart: number;
  readonly #deadlines: Deadlines;
  readonly #hello: Promise<void>;
  #greeted = false;
  #pending: Pending | undefined;
  #lastId = 0;
  #ended: Error | undefined;
  #closing = false;
  readonly #exited: Promise<void>;
  #sign = { beat: Date.now(), progress: Date.now() };
  readonly #watch: NodeJS.Timeout;
  #lastLook = Date.now();
  readonly #killGroup = () => this.#signalGroup("SIGKILL");

  constructor(settings: ChildSettings) {
    const { python, threads, logFile } = settings;
    this.#deadlines = { ...DEADLINES, ...settings.deadlines };
    this.#logFile = logFile;
    mkdirSync(dirname(logFile), { recursive: true });
    const log = openSync(logFile, "a");
    this.#logStart = statSync(logFile).size;
    const native = join(packageRoot, "native");
    this.#process = spawn(python, [...(settings.module ?? ["-m", "learner"])], {
      cwd: process.cwd(),
      detached: true,
      stdio: ["ignore", log, log, "pipe", "pipe"],
      env: {
        ...process.env,
        HONE_DOCTOR: hone("doctor"),
        PYTHONPATH: process.env.PYTHONPATH ? `${native}:${process.env.PYTHONPATH}` : native,
        PYTHONUNBUFFERED: "1",
        // Modules of the working folder do not come before these.
        PYTHONSAFEPATH: "1",
        // Read when PyTorch is imported: its own thread pool must not be larger than granted.
        OMP_NUM_THREADS: String(threads),
        // Waiting threads give up their core quickly: where others need it, spinning halves the speed.
        OMP_WAIT_POLICY: process.env.OMP_WAIT_POLICY ?? "passive",
        GOMP_SPINCOUNT: process.env.GOMP_SPINCOUNT ?? "10000",
        // Huge pages for allocations: an update allocates and frees gigabytes, which page by page takes a tenth of its time.
        // Allocations above a threshold are mapped separately and returned when freed. glibc raises its threshold up to 32
        // MiB by itself; the holes that tensors then leave in the heap take as much memory again as the tensors.
        GLIBC_TUNABLES: process.env.GLIBC_TUNABLES ?? "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1048576",
        // The model is on this disk; no library may ask the network for it.
        HF_HUB_OFFLINE: "1",
        TOKENIZERS_PARALLELISM: "false",
      },
    });
    closeSync(log);
    this.#control = this.#process.stdio[3] as Writable;
    const reports = this.#process.stdio[4] as Readable;
    // A write to a child that has just died is reported by its exit, with its last lines.
    this.#control.on("error", () => undefined);
    reports.on("error", () => undefined);

    let greet: () => void = () => undefined;
    let refuse: (error: Error) => void = () => undefined;
    this.#hello = new Promise((resolve, reject) => {
      greet = resolve;
      refuse = reject;
    });
    // Callers awaiting it get the rejection; there may be no caller yet when the child dies.
    this.#hello.catch(() => undefined);

    const drained = new Promise<void>((resolve) => reports.once("close", resolve));
    createInterface({ input: reports }).on("line", (line) => this.#read(line, greet));
    this.#exited = new Promise((resolve) => {
      const end = (error: Error) => {
        refuse(this.#end(error));
        resolve();
      };
      this.#process.once("error", (error: NodeJS.ErrnoException) => {
        const why = error.code === "ENOENT" ? "there is no such program" : error.message;
        end(new HoneError(`the learner could not be started with ${python}: ${why}; give a Python with --python`));
      });
      this.#process.once("exit", async (code, signal) => {
        // Processes that it started must not outlive it.
        this.#signalGroup("SIGKILL");
        await Promise.race([drained, new Promise((done) => setTimeout(done, DRAIN_MS))]);
        const how = signal === null ? `ended with code ${code}` : endedBy(signal);
        end(this.#died(this.#closing ? "was closed" : how));
      });
    });
    process.on("exit", this.#killGroup);
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
    this.#sign.progress = Date.now();
    const result = new Promise<unknown>((resolve, reject) => {
      this.#pending = { id, onProgress, resolve, reject };
    });
    this.#control.write(request(id, name, body));
    return result;
  }

  /** Ends the process. Closing its control pipe asks it to exit; if it does not, its whole process group is killed. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#control.end();
    await Promise.race([this.#exited, new Promise((done) => setTimeout(done, CLOSE_MS).unref())]);
    this.#signalGroup("SIGKILL");
    await this.#exited;
  }

  #read(line: string, greet: () => void): void {
    let message: Report;
    try {
      message = readReport(line);
    } catch (error) {
      this.#fail(new LearnerFailed(`the learner sent what is no message: ${messageOf(error)} (log: ${this.#logFile})`));
      return;
    }
    this.#sign.beat = Date.now();
    if (message.type === "beat") return;
    this.#sign.progress = this.#sign.beat;
    if (message.type === "hello") {
      if (message.version !== PROTOCOL_VERSION) {
        const spoken = `protocol ${message.version}, hone speaks ${PROTOCOL_VERSION}`;
        this.#fail(new LearnerRefused(`the learner speaks ${spoken}: its files belong to another version of hone`));
        return;
      }
      this.#greeted = true;
      greet();
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
    const now = Date.now();
    // Messages that the child has sent meanwhile have not been read yet.
    if (now - this.#lastLook > OVERSLEPT_MS) this.#sign = { beat: now, progress: now };
    this.#lastLook = now;
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

  /** Gives the child up. */
  #fail(error: Error): void {
    this.#end(error);
    this.#signalGroup("SIGKILL");
  }

  /** Accepts no more requests. Returns the reason, which is the first one given. */
  #end(error: Error): Error {
    this.#ended ??= error;
    clearInterval(this.#watch);
    process.off("exit", this.#killGroup);
    const pending = this.#pending;
    this.#pending = undefined;
    pending?.reject(this.#ended);
    return this.#ended;
  }

  #died(what: string): LearnerDied {
    return new LearnerDied(what, this.#tail(), this.#logFile);
  }

  /** The last lines that this process wrote to the log; none where it was removed. */
  #tail(): string[] {
    if (!existsSync(this.#logFile)) return [];
    const size = statSync(this.#logFile).size;
    const from = Math.max(this.#logStart, size - TAIL_BYTES);
    const buffer = Buffer.alloc(Math.max(0, size - from));
    const file = openSync(this.#logFile, "r");
    try {
      readSync(file, buffer, 0, buffer.length, from);
    } finally {
      closeSync(file);
    }
    const lines = buffer.toString("utf8").split("\n");
    return lines.filter((line) => line.trim() !== "").slice(-TAIL_LINES);
  }

  #signalGroup(signal: NodeJS.Signals): void {
    const { pid } = this.#process;
    if (pid === undefined) return;
    try {
      process.kill(-pid, signal);
    } catch {
      // ESRCH: the group is gone already.
    }
  }
}
