/**
 * A tracker's process (native/tracker): rows are sent as fast as it accepts them, and wait in a bounded queue.
 * Whatever its state, training does not wait for it before the run has ended, and lost rows are reported once.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { type ChildEnd, PythonChild } from "../../core/learn/python-child.js";
import { hone } from "../../core/util/program.js";
import { awakeTime } from "../../core/util/time-limit.js";
import type { Figures } from "./figures.js";
import type { TrackerName } from "./names.js";
import type { RolloutTable } from "./sample.js";

/** Rows that wait for a tracker; older ones are dropped. The run keeps them, so a later call of `yarn train` sends them. */
const MOST_ROWS = 2000;
/** Rows sent and not yet acknowledged. */
const IN_FLIGHT = 8;

/** Interval at which its end is checked, and the wait after which the user is told, in milliseconds. */
const LOOK = 100;
const LOG_AFTER = 3000;
/** Characters of a log's last line that are told at most. */
const LINE = 200;

export interface Row {
  readonly step: number;
  readonly values: Figures;
  readonly rollouts?: RolloutTable | undefined;
}

export interface AdapterMessage {
  readonly step: number;
  /** In PEFT's format. */
  readonly folder: string;
  /** GGUF. */
  readonly file: string;
  readonly aliases: readonly string[];
}

export interface TrackerSettings {
  readonly name: TrackerName;
  readonly python: string;
  readonly logFile: string;
  /** The first message, as native/tracker/__main__.py has it. */
  readonly about: object;
  /** Rows of the run so far; the process takes those after its last recorded step. */
  readonly history: readonly Row[];
  readonly log: (line: string) => void;
  /** Arguments of Python; replaced in tests. */
  readonly program?: readonly string[];
}

type Message =
  | { type: "ready"; last: number; where: string; note: string | null }
  | { type: "done"; step: number }
  | { type: "kept" }
  | { type: "ended"; where: string };

export class TrackerProcess {
  readonly #settings: TrackerSettings;
  readonly #process: PythonChild;
  #queue: Row[] = [];
  #inFlight = 0;
  #ready = false;
  /** The process has ended, or was given up. */
  #gone = false;
  /** It has reported that everything was recorded. */
  #ended = false;
  #adapters: AdapterMessage[] = [];
  #closing = false;
  /** The last step that it has recorded. */
  #last = -1;
  #dropped = 0;
  /** When its last sign of life came, by {@link awakeTime}. */
  #sign = awakeTime();

  constructor(settings: TrackerSettings) {
    this.#settings = settings;
    const { name, python, logFile, about, program = ["-m", "tracker", name] } = settings;
    this.#process = new PythonChild({
      python,
      args: program,
      logFile,
      onLine: (line) => this.#read(line),
      onEnd: (end) => this.#over(end),
    });
    this.#process.send(about);
  }

  add(row: Row): void {
    if (this.#gone) return;
    this.#queue.push(row);
    this.#bound();
    this.#pump();
  }

  /**
   * Sends the queued rows and the adapters, and lets the process end.
   * @param patience milliseconds without a sign of life, after which it is killed
   */
  async close(adapters: readonly AdapterMessage[], patience: number): Promise<void> {
    const begun = awakeTime();
    this.#adapters = [...adapters];
    this.#closing = true;
    this.#sign = begun;
    this.#pump();
    let logged = false;
    while (!this.#gone) {
      if (awakeTime() - this.#sign > patience) break;
      if (!logged && awakeTime() - begun > LOG_AFTER) {
        logged = true;
        this.#settings.log(`${this.#settings.name}: waiting until it has written what it was told`);
      }
      await Promise.race([this.#process.ended, sleep(LOOK)]);
    }
    if (!this.#gone && !this.#ended) this.#giveUp(`was not done in ${Math.round((awakeTime() - begun) / 1000)} s`);
    this.#process.kill();
    await this.#process.ended;
  }

  #read(line: string): void {
    this.#sign = awakeTime();
    let message: Message;
    try {
      message = JSON.parse(line) as Message;
    } catch {
      this.#giveUp("said what is no message");
      this.#process.kill();
      return;
    }
    const { name, history, log } = this.#settings;
    if (message.type === "ready") {
      const { last, where, note } = message;
      this.#ready = true;
      this.#last = last;
      log(`${name}: ${last < 0 ? "" : `going on after step ${last}; `}${where}`);
      if (note !== null) log(`${name}: ${note}`);
      this.#queue = [...history.filter(({ step }) => step > last), ...this.#queue];
      this.#bound();
    } else if (message.type === "done") {
      this.#inFlight--;
      this.#last = Math.max(this.#last, message.step);
    } else if (message.type === "ended") {
      this.#ended = true;
    }
    this.#pump();
  }

  #bound(): void {
    const over = this.#queue.length - MOST_ROWS;
    if (over > 0) {
      this.#queue.splice(0, over);
      if (this.#dropped === 0)
        this.#settings.log(`${this.#settings.name}: it takes too long; the oldest steps that wait for it are left out`);
      this.#dropped += over;
    }
  }

  #pump(): void {
    if (!this.#ready || this.#gone) return;
    while (this.#inFlight < IN_FLIGHT) {
      const row = this.#queue.shift();
      if (!row) break;
      this.#inFlight++;
      this.#process.send({ type: "row", ...row });
    }
    if (!this.#closing || this.#queue.length > 0 || this.#inFlight > 0) return;
    for (const adapter of this.#adapters.splice(0)) this.#process.send({ type: "adapter", ...adapter });
    if (this.#process.finished) return;
    this.#process.send({ type: "end" });
    this.#process.finish();
    this.#sign = awakeTime();
  }

  #over(end: ChildEnd): void {
    if (end.error) this.#giveUp(`could not be started (${end.error.message})`);
    else if (!this.#ended) this.#giveUp(end.signal ? `was ended by ${end.signal}` : `ended with code ${end.code}`);
    this.#gone = true;
  }

  /** Called once: later rows are lost without a further message. */
  #giveUp(why: string): void {
    if (this.#gone) return;
    this.#gone = true;
    const { name, logFile, log } = this.#settings;
    const [line] = this.#process.tail(1);
    const last = line === undefined ? "" : `${line.trim().slice(0, LINE)}; `;
    const since = this.#last < 0 ? "nothing of this run is" : `what comes after step ${this.#last} is not`;
    log(
      `${name} ${why}: ${since} in it; training is not concerned, and the next \`${hone("train")} --track ${name}\` of this run makes up for it (${last}log: ${logFile})`,
    );
    this.#queue = [];
  }
}
