/** The vLLM server that hone starts on this machine: it ends with hone, also when that is killed. */
import { createWriteStream, type WriteStream } from "node:fs";
import type { Readable } from "node:stream";
import type { OwnServerOptions, VllmOptions } from "../../core/engine/engine.js";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { OWN_PYTHON } from "../../core/util/run.js";
import { spawnTied } from "../../core/util/tied.js";
import { awakeTime } from "../../core/util/time-limit.js";
import { HttpClient } from "../http.js";

/** Seconds until it answers: it loads Python's packages and the weights. */
const START_SECONDS = 900;
/** Ranks that vLLM takes as the highest. */
const RANKS = [1, 8, 16, 32, 64, 128, 256, 320, 512];
/** Of its output, kept for an error. */
const LINES = 200;
/** Times that it is started again after it died. */
const MOST_DEATHS = 5;

type Started = ReturnType<typeof spawnTied>;
type Served = Pick<VllmOptions, "urls" | "contextPerSequence" | "sequences" | "adapterRank" | "signal">;

export class OwnServer {
  readonly #options: OwnServerOptions;
  readonly #engine: Served;
  readonly #log: (line: string) => void;
  readonly #giveUp: () => void;
  readonly #client: HttpClient;
  readonly #said: string[] = [];
  #running: Started | undefined;
  #file: WriteStream | undefined;
  #wanted = false;
  #deaths = 0;

  /** @param giveUp called when it is not started again */
  constructor(options: OwnServerOptions, engine: Served, log: (line: string) => void, giveUp: () => void) {
    this.#options = options;
    this.#engine = engine;
    this.#log = log;
    this.#giveUp = giveUp;
    this.#client = new HttpClient(engine.urls[0] as string, { signal: engine.signal });
  }

  /** Whether it keeps its memory while the learner computes. */
  get stays(): boolean {
    return this.#options.rests === "stays";
  }

  /** @throws HoneError when it ends, with the cause */
  async start(): Promise<void> {
    const began = awakeTime();
    this.#log(
      `starting vLLM on ${this.#options.gpu ? "the GPU" : "the CPU"} at ${this.#client.url}; its output: ${this.#options.logFile}`,
    );
    const running = this.#spawn();
    for (;;) {
      this.#engine.signal?.throwIfAborted();
      if (this.#running !== running) throw new HoneError(`vLLM did not start: ${this.#why()}`);
      if (await this.#answers()) {
        this.#wanted = true;
        return;
      }
      if (awakeTime() - began > 1000 * START_SECONDS) {
        throw new HoneError(`vLLM does not answer after ${START_SECONDS} s; see ${this.#options.logFile}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 500));
    }
  }

  /** Gives its memory back: on a GPU that of weights and KV, elsewhere all of it. */
  async sleep(): Promise<void> {
    if (this.#options.rests === "stops") return this.#stop();
    await this.#post("/sleep?level=1");
  }

  async wake(): Promise<void> {
    if (this.#options.rests === "stops") return this.start();
    await this.#post("/wake_up");
  }

  async close(): Promise<void> {
    await this.#stop();
    this.#client.close();
    this.#file?.end();
  }

  async #post(path: string): Promise<void> {
    const { status, text } = await this.#client.ask(path, {});
    if (status !== 200) throw new HoneError(`vLLM answers ${status} to ${path}: ${text.slice(0, 200)}`);
  }

  async #answers(): Promise<boolean> {
    try {
      return (await this.#client.ask("/health", undefined, { seconds: 5 })).status === 200;
    } catch {
      // Not yet.
      return false;
    }
  }

  async #stop(): Promise<void> {
    this.#wanted = false;
    const running = this.#running;
    if (!running) return;
    const ended = new Promise((resolve) => running.process.once("exit", resolve));
    running.kill();
    await ended;
  }

  #spawn(): Started {
    const { python, logFile, environment } = this.#options;
    this.#file ??= createWriteStream(logFile, { flags: "a" }).on("error", () => undefined);
    const running = spawnTied(python, this.#arguments(), {
      stdio: ["ignore", "pipe", "pipe"],
      ownGroup: true,
      env: { ...process.env, ...OWN_PYTHON, ...environment },
    });
    this.#running = running;
    for (const stream of [running.process.stdout as Readable, running.process.stderr as Readable]) {
      stream.setEncoding("utf8").on("data", (text: string) => {
        this.#file?.write(text);
        this.#said.push(...text.split(/[\r\n]+/).filter((line) => line.trim() !== ""));
        this.#said.splice(0, Math.max(0, this.#said.length - LINES));
      });
    }
    running.process.once("error", (error) => this.#said.push(messageOf(error)));
    running.process.once("exit", () => {
      if (this.#running !== running) return;
      this.#running = undefined;
      // One that has never answered is not started again: `start` says why it ended.
      if (this.#wanted) void this.#again();
    });
    return running;
  }

  /** After it died on its own. */
  async #again(): Promise<void> {
    this.#deaths++;
    if (this.#deaths > MOST_DEATHS) {
      this.#log(`vLLM has ended for the ${this.#deaths}th time (${this.#why()}) and is not started again`);
      this.#giveUp();
      return;
    }
    this.#log(`vLLM has ended (${this.#why()}) and is started again`);
    await new Promise((resolve) => setTimeout(resolve, 1000));
    if (this.#wanted && !this.#running) this.#spawn();
  }

  #why(): string {
    const telling = this.#said.findLast((line) => /(Error|error:|Exception|Killed|killed)/.test(line));
    const line = telling ?? this.#said.at(-1) ?? "it said nothing";
    return line.replace(/^\(\S+ pid=\d+\)\s*/, "").slice(0, 300);
  }

  #arguments(): string[] {
    const { folder, dtype, gpu, memoryShare } = this.#options;
    const { contextPerSequence, sequences, adapterRank, urls } = this.#engine;
    const { hostname, port } = new URL(urls[0] as string);
    const rank = RANKS.find((one) => one >= (adapterRank ?? 1)) ?? adapterRank;
    const valued = {
      model: folder,
      "served-model-name": "base",
      host: hostname,
      port,
      dtype,
      "max-model-len": contextPerSequence + 1,
      "max-num-seqs": sequences,
      "max-lora-rank": rank,
      "max-loras": 2,
      "logprobs-mode": "processed_logprobs",
      "generation-config": "vllm",
      ...(gpu && { "gpu-memory-utilization": memoryShare }),
    };
    return [
      ...["-m", "vllm.entrypoints.openai.api_server"],
      ...Object.entries(valued).flatMap(([name, value]) => [`--${name}`, String(value)]),
      "--enable-lora",
      gpu ? "--enable-sleep-mode" : "--enforce-eager",
    ];
  }
}
