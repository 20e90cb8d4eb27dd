/**
 * The learner, which the loop's `Updater` asks: loaded once, asked for updates, closed. It is a process of its own (child.ts);
 * `close` is the certain way to release its memory, so a run may open one per step.
 */
import { z } from "zod";
import { onAbort } from "../util/signals.js";
import { Child, type ChildSettings } from "./child.js";
import { LearnerFailed, LearnerRefused } from "./errors.js";
import type { RequestName } from "./protocol.js";
import {
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

export class Learner {
  readonly #child: Child;
  /** Facts about the loaded model. */
  readonly info: LearnerInfo;

  /** Use {@link startLearner}. */
  constructor(child: Child, info: LearnerInfo) {
    this.#child = child;
    this.info = info;
  }

  /** The process id, which is also that of its process group. */
  get pid(): number {
    return this.#child.pid as number;
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
    return ask(this.#child, "step", settings, stepMetrics);
  }

  /** Supervised learning of the sampled tokens, then a checkpoint in `into`. Throws as `step` does. */
  async sft(settings: SftSettings): Promise<SftMetrics> {
    return ask(this.#child, "sft", settings, sftMetrics);
  }

  /** Ends the process group, also during an update: that update is lost. */
  async close(): Promise<void> {
    await this.#child.close();
  }
}

async function ask<T>(
  child: Child,
  name: RequestName,
  { onProgress, ...body }: { readonly onProgress?: OnProgress | undefined } & object,
  result: z.ZodType<T>,
): Promise<T> {
  const parsed = result.safeParse(await child.call(name, body, onProgress));
  if (!parsed.success)
    throw new LearnerFailed(`the learner's answer to ${name} is wrong: ${z.prettifyError(parsed.error)}`);
  return parsed.data;
}

export interface StartOptions {
  readonly onProgress?: OnProgress;
  /** The Python module to run; replaced in tests. */
  readonly module?: ChildSettings["module"];
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
  const { python, threads, ggml, logFile, deadlines, launch, cards, ...model } = settings;
  if (model.lora && model.lora.targets.length === 0) {
    throw new LearnerRefused("an adapter needs at least one target layer");
  }
  const child = new Child({
    python,
    threads,
    ggml,
    logFile,
    ...(deadlines ? { deadlines } : {}),
    cards,
    ...(launch === undefined ? {} : { module: ["-m", "learner.launch", launch] }),
    ...(module ? { module } : {}),
  });
  using _stopping = onAbort(signal, () => void child.close());
  try {
    const opening = { ...model, threads, onProgress };
    const info = await ask(child, "open", opening, learnerInfo);
    return new Learner(child, info);
  } catch (error) {
    await child.close();
    throw error;
  }
}
