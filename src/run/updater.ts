/**
 * The learner between the steps: kept alive for the run, or ended after each update, which is the certain way to give
 * its memory back. A learner that dies is replaced once, from the checkpoint in force; one that runs out of memory is
 * asked again with smaller micro-batches.
 */
import { LearnerDied, LearnerOutOfMemory, type StepMetrics, type StepSettings } from "../learn/index.js";
import type { UpdateRequest, Updater } from "./parts.js";

/** What is used of a learner. */
export interface LearnerLike {
  step(settings: StepSettings): Promise<StepMetrics>;
  close(): Promise<void>;
}

export interface UpdaterSettings {
  /** "step": ended after each update. */
  readonly lifetime: "run" | "step";
  /** What every update shares. */
  readonly step: Omit<StepSettings, "batch" | "into" | "learningRate" | "onProgress">;
  /** Starts a learner from a checkpoint folder, or with a new adapter. */
  readonly start: (from: string | undefined) => Promise<LearnerLike>;
  readonly say: (text: string) => void;
}

/** Tokens below which a micro-batch is not made smaller: then it is not its size that does not fit. */
const SMALLEST_MICRO_BATCH = 256;

export class LearnerUpdater implements Updater {
  readonly #settings: UpdaterSettings;
  #learner: LearnerLike | undefined;
  #microBatchTokens: number;

  constructor(settings: UpdaterSettings) {
    this.#settings = settings;
    this.#microBatchTokens = settings.step.microBatchTokens;
  }

  async prepare(from: string | undefined): Promise<void> {
    this.#learner = await this.#settings.start(from);
    if (this.#settings.lifetime === "step") await this.close();
  }

  async update(request: UpdateRequest): Promise<StepMetrics> {
    const stop = () => void this.close();
    request.signal.addEventListener("abort", stop, { once: true });
    try {
      return await this.#replacingTheDead(request);
    } finally {
      request.signal.removeEventListener("abort", stop);
      if (this.#settings.lifetime === "step") await this.close();
    }
  }

  async close(): Promise<void> {
    const learner = this.#learner;
    this.#learner = undefined;
    await learner?.close();
  }

  async #replacingTheDead(request: UpdateRequest): Promise<StepMetrics> {
    try {
      return await this.#fitting(request);
    } catch (error) {
      if (!(error instanceof LearnerDied) || request.signal.aborted) throw error;
      this.#settings.say(`${error.message}; once more from the last checkpoint`);
      await this.close();
      return this.#fitting(request);
    }
  }

  async #fitting(request: UpdateRequest): Promise<StepMetrics> {
    const { batch, into, from, learningRate, onProgress } = request;
    for (;;) {
      this.#learner ??= await this.#settings.start(from);
      const microBatchTokens = this.#microBatchTokens;
      try {
        const settings = { ...this.#settings.step, batch, into, learningRate, microBatchTokens, onProgress };
        return await this.#learner.step(settings);
      } catch (error) {
        if (!(error instanceof LearnerOutOfMemory) || microBatchTokens / 2 < SMALLEST_MICRO_BATCH) throw error;
        this.#microBatchTokens = Math.floor(microBatchTokens / 2);
        this.#settings.say(
          `the update did not fit into memory; from now on --micro-batch-tokens ${this.#microBatchTokens} instead of ${microBatchTokens}`,
        );
      }
    }
  }
}
