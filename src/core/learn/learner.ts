/**
 * The learner, which the loop's `Updater` asks: loaded once, asked for updates, closed. It is a process of its own, which is ended when
 * it falls silent; `close` is the certain way to release its memory, so a run may open one per step.
 */
import { z } from "zod";
import { HoneError, messageOf } from "../util/errors.js";
import { onAbort } from "../util/signals.js";
import { awakeTime } from "../util/time-limit.js";
import { learnerEnvironment } from "./environment.js";
import { LearnerDied, LearnerFailed, LearnerOutOfMemory, LearnerRefused } from "./errors.js";
import { PROTOCOL_VERSION, type Report, type RequestName, readReport } from "./protocol.js";
import { type ChildEnd, PythonChild } from "./python-child.js";
import {
  type Deadlines,
  type LearnerInfo,
  type LearnerSettings,
  learnerInfo,
  type OnProgress,
  type SftMetrics,
  type SftSettings,
  type StepMetrics,
  type StepSettings,
  sftMetrics,
  stepMetrics,
} from "./types.js";

/**
 * The files of an update: the adapter as PEFT and as GGUF, and optimizer with random state. When all weights are
 * trained, `model/` (Hugging Face) and `model.gguf` replace the adapters.
 */
export const CHECKPOINT_FILES = {
  lora: ["adapter/adapter_model.safetensors", "adapter/adapter_config.json", "adapter.gguf", "optimizer.pt"],
  full: ["model/model.safetensors", "model/config.json", "model.gguf", "optimizer.pt"],
} as const;

/** A cold start imports PyTorch from a slow disk; a heartbeat may wait for a long copy that holds the interpreter. */
const DEADLINES: Deadlines = { start: 120, beat: 60, progress: 900 };

/** Interval of the deadline checks, and time allowed for a regular exit, in milliseconds. */
const WATCH_MS = 500;
const CLOSE_MS = 5000;
/** Lines of the log in an error. */
const TAIL_LINES = 20;

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

/** The id of no request: what is awaited first is the process's greeting. */
const GREETING = 0;

export class Learner {
  /** Facts about the loaded model. */
  info!: LearnerInfo;
  readonly #process: PythonChild;
  readonly #settings: Pick<LearnerSettings, "python" | "logFile">;
  readonly #deadlines: Deadlines;
  readonly #greeted: Promise<unknown>;
  #pending: Pending | undefined;
  #lastId = GREETING;
  #ended: Error | undefined;
  #closing = false;
  /** When its last signs came, by {@link awakeTime}. */
  #sign = { beat: awakeTime(), progress: awakeTime() };
  readonly #watch: NodeJS.Timeout;

  /** Starts the process. Use {@link startLearner}. */
  constructor(settings: LearnerSettings, module: readonly string[] = ["-m", "learner"]) {
    const { python, threads, ggml, logFile, deadlines, cards } = settings;
    this.#settings = settings;
    this.#deadlines = { ...DEADLINES, ...deadlines };
    this.#greeted = this.#answer(GREETING);
    // Callers awaiting it get the rejection; there may be no caller yet when the process dies.
    this.#greeted.catch(() => undefined);
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

  /** The process id, which is also that of its process group. */
  get pid(): number {
    return this.#process.pid as number;
  }

  /** Loads a model, in place of the one before. @param opening what the process is told of it */
  async open(opening: object, onProgress?: OnProgress): Promise<void> {
    this.info = await this.#ask("open", { ...opening, onProgress }, learnerInfo);
  }

  /**
   * One policy-gradient update, then a checkpoint in `into`. When the metrics have `applied: false`, nothing has changed
   * and nothing was written.
   *
   * @throws LearnerRefused when the batch does not fit the model or has nothing to learn from
   * @throws LearnerOutOfMemory when it does not fit into memory; weights are as before
   * @throws LearnerDied when the process ended; start a new one from the last checkpoint
   */
  async step(settings: StepSettings): Promise<StepMetrics> {
    return this.#ask("step", settings, stepMetrics);
  }

  /** Supervised learning of the sampled tokens, then a checkpoint in `into`. Throws as `step` does. */
  async sft(settings: SftSettings): Promise<SftMetrics> {
    return this.#ask("sft", settings, sftMetrics);
  }

  /**
   * Ends the process group, also during an update: that update is lost. Closing its control pipe asks it to exit; if it does not, it is
   * killed.
   */
  async close(): Promise<void> {
    this.#closing = true;
    this.#process.finish();
    await Promise.race([this.#process.ended, new Promise((done) => setTimeout(done, CLOSE_MS).unref())]);
    this.#process.kill();
    await this.#process.ended;
  }

  /** Sends a request and waits for its result. One at a time. Rejects with the errors of errors.ts. */
  async #ask<T>(
    name: RequestName,
    { onProgress, ...body }: { readonly onProgress?: OnProgress | undefined } & object,
    result: z.ZodType<T>,
  ): Promise<T> {
    await this.#greeted;
    if (this.#ended) throw this.#ended;
    if (this.#pending) throw new Error(`the learner is busy; ${name} must wait for the request before it`);
    const id = ++this.#lastId;
    this.#sign.progress = awakeTime();
    const answer = this.#answer(id, onProgress);
    this.#process.send({ id, type: name, ...body });
    const parsed = result.safeParse(await answer);
    if (parsed.success) return parsed.data;
    throw new LearnerFailed(`the learner's answer to ${name} is wrong: ${z.prettifyError(parsed.error)}`);
  }

  #answer(id: number, onProgress?: OnProgress): Promise<unknown> {
    return new Promise((resolve, reject) => {
      this.#pending = { id, onProgress, resolve, reject };
    });
  }

  /** What is awaited under this id, which is awaited no more. */
  #taken(id: number): Pending | undefined {
    // An answer to no request is a defect, but none that loses work.
    if (this.#pending?.id !== id) return undefined;
    const pending = this.#pending;
    this.#pending = undefined;
    return pending;
  }

  #read(line: string): void {
    let message: Report;
    try {
      message = readReport(line);
    } catch (error) {
      const log = `(log: ${this.#settings.logFile})`;
      this.#fail(new LearnerFailed(`the learner sent what is no message: ${messageOf(error)} ${log}`));
      return;
    }
    this.#sign.beat = awakeTime();
    if (message.type === "beat" && !message.progress) return;
    this.#sign.progress = this.#sign.beat;
    if (message.type === "hello") {
      if (message.version === PROTOCOL_VERSION) this.#taken(GREETING)?.resolve(undefined);
      else {
        const spoken = `protocol ${message.version}, hone speaks ${PROTOCOL_VERSION}`;
        this.#fail(new LearnerRefused(`the learner speaks ${spoken}: its files belong to another version of hone`));
      }
    } else if (message.type === "progress") {
      if (this.#pending?.id === message.id) this.#pending.onProgress?.(message);
    } else if (message.type === "done") this.#taken(message.id)?.resolve(message.result);
    else if (message.type === "error") {
      if (message.id === null) this.#fail(new LearnerFailed(`the learner did not understand hone: ${message.message}`));
      else this.#taken(message.id)?.reject(this.#errorOf(message));
    }
  }

  #errorOf({ code, message }: Extract<Report, { type: "error" }>): Error {
    if (code === "refused") return new LearnerRefused(message);
    if (code === "memory") return new LearnerOutOfMemory(message);
    return new LearnerFailed(`${message} (log: ${this.#settings.logFile})`);
  }

  #checkDeadlines(): void {
    const now = awakeTime();
    const silent = (since: number) => (now - since) / 1000;
    const { start, beat, progress } = this.#deadlines;
    if (this.#ended || this.#closing) return;
    if (this.#pending?.id === GREETING) {
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
      const { python } = this.#settings;
      return new HoneError(`the learner could not be started with ${python}: ${why}; give a Python with --python`);
    }
    if (this.#closing) return this.#died("was closed");
    return this.#died(end.signal === null ? `ended with code ${end.code}` : endedBy(end.signal));
  }

  /** Gives the process up. */
  #fail(error: Error): void {
    this.#end(error);
    this.#process.kill();
  }

  /** Accepts no more requests. The first reason given is the one that callers get. */
  #end(error: Error): void {
    this.#ended ??= error;
    clearInterval(this.#watch);
    this.#pending?.reject(this.#ended);
    this.#pending = undefined;
  }

  #died(what: string): LearnerDied {
    return new LearnerDied(what, this.#process.tail(TAIL_LINES), this.#settings.logFile);
  }
}

export interface StartOptions {
  readonly onProgress?: OnProgress;
  /** The Python module to run; replaced in tests. */
  readonly module?: readonly string[];
  readonly signal?: AbortSignal;
}

/**
 * Starts a learner and loads the model. Its output goes to the log file. Aborting the signal ends it while it loads.
 *
 * @throws LearnerRefused when the model, the adapter or the settings are incompatible
 * @throws LearnerDied when the process fails to start, or loading is aborted
 */
export async function startLearner(
  settings: LearnerSettings,
  { onProgress, module, signal }: StartOptions = {},
): Promise<Learner> {
  const { python, ggml, logFile, deadlines, cards, launch, ...model } = settings;
  if (model.lora && model.lora.targets.length === 0) {
    throw new LearnerRefused("an adapter needs at least one target layer");
  }
  const ranks = launch === undefined ? undefined : ["-m", "learner.launch", launch];
  const learner = new Learner(settings, module ?? ranks);
  using _stopping = onAbort(signal, () => void learner.close());
  try {
    await learner.open(model, onProgress);
    return learner;
  } catch (error) {
    await learner.close();
    throw error;
  }
}
