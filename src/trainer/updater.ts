/**
 * The learner between steps: kept alive for the run, or ended after each update, which is the certain way to release its
 * memory; one that is kept may move itself to main memory after each update (`offload`). A learner that dies is replaced
 * once, from the checkpoint in force; one that runs out of memory is asked again with smaller micro-batches.
 */
import { adamOf } from "../core/config/sizes.js";
import { LearnerDied, LearnerOutOfMemory } from "../core/learn/errors.js";
import { type Learner, startLearner } from "../core/learn/learner.js";
import { objectiveOf } from "../core/learn/objectives.js";
import type { LearnerLifetime, StepMetrics, StepSettings } from "../core/learn/types.js";
import type { Run } from "../core/run/run.js";
import type { UpdateRequest, Updater } from "../core/train/parts.js";
import { deriveSeed } from "../core/util/random.js";
import { onAbort } from "../core/util/signals.js";
import { learnerCards } from "../engine/device/device.js";
import { ggmlBase } from "../engine/missing.js";
import { learnerFacts, learnerText } from "../machine/compute.js";
import type { RunPlan } from "./plan-run.js";

/** The part of the learner's interface that is used. */
export type LearnerLike = Pick<Learner, "step" | "close">;

export interface UpdaterSettings {
  /** "step": ended after each update. */
  readonly lifetime: LearnerLifetime;
  /** Settings that all updates share. */
  readonly step: Omit<StepSettings, keyof UpdateRequest>;
  /** Starts a learner from a checkpoint folder, or with a new adapter. Aborting the signal ends it while it loads. */
  readonly start: (from: string | undefined, signal: AbortSignal) => Promise<LearnerLike>;
  readonly log: (text: string) => void;
}

/** Micro-batches are not made smaller than this many tokens: then their size is not the cause. */
const SMALLEST_MICRO_BATCH = 256;

export function learnerUpdater({ lifetime, step, start, log }: UpdaterSettings): Updater {
  let learner: LearnerLike | undefined;
  let preparing: Promise<void> | undefined;
  /** Checkpoints that the learner's updates have gone on from. */
  const left = new Set<string | undefined>();
  const closed = new AbortController();
  let { microBatchTokens } = step;
  /** Notes already shown: a new learner reports the same ones. */
  const noted = new Set<string>();

  async function begin(from: string | undefined, signal: AbortSignal): Promise<LearnerLike> {
    learner = await start(from, signal);
    return learner;
  }

  async function end(): Promise<void> {
    const ended = learner;
    learner = undefined;
    left.clear();
    await ended?.close();
  }

  async function afterUse(): Promise<void> {
    if (lifetime === "step") await end();
  }

  async function fitting(request: UpdateRequest): Promise<StepMetrics> {
    const { from, signal, onAsk, ...asked } = request;
    // Its last update was not kept.
    if (left.has(from)) await end();
    for (;;) {
      const asking = learner ?? (await begin(from, signal));
      const tried = microBatchTokens;
      try {
        const settings = { ...step, ...asked, microBatchTokens };
        await onAsk(settings);
        const metrics = await asking.step(settings);
        if (metrics.applied) left.add(from);
        for (const line of metrics.notes ?? []) {
          if (!noted.has(line)) log(line);
          noted.add(line);
        }
        return metrics;
      } catch (error) {
        if (!(error instanceof LearnerOutOfMemory) || tried / 2 < SMALLEST_MICRO_BATCH) throw error;
        microBatchTokens = Math.floor(tried / 2);
        log(
          `the update did not fit into memory; from now on --micro-batch-tokens ${microBatchTokens} instead of ${tried}`,
        );
      }
    }
  }

  async function replacingTheDead(request: UpdateRequest): Promise<StepMetrics> {
    try {
      return await fitting(request);
    } catch (error) {
      if (!(error instanceof LearnerDied) || request.signal.aborted) throw error;
      log(`${error.message}; once more from the last checkpoint`);
      await end();
      return fitting(request);
    }
  }

  return {
    prepare(from) {
      if (preparing) return preparing;
      const now = begin(from, closed.signal).then(afterUse);
      preparing = now;
      // The next one starts a learner again.
      now.catch(() => {
        if (preparing === now) preparing = undefined;
      });
      return now;
    },
    async update(request) {
      await preparing;
      using _stopping = onAbort(request.signal, () => void end());
      try {
        return await replacingTheDead(request);
      } finally {
        await afterUse();
      }
    },
    /** Ends the learner, also while it loads. */
    async close() {
      closed.abort();
      // Callers awaiting prepare() get the error.
      await preparing?.catch(() => undefined);
      await end();
    },
  };
}

export interface UpdaterSources extends Pick<RunPlan, "model" | "settings" | "config" | "fitted" | "place"> {
  readonly run: Pick<Run, "logFile" | "saw">;
  /** CPU threads. */
  readonly threads: number;
  /** The learner's interpreter, installed where it is missing; aborting the signal ends that. */
  readonly python: (signal: AbortSignal) => Promise<string>;
  readonly log: (text: string) => void;
}

/** The learner of a run, from its settings. Nothing is started before the first use. */
export function openUpdater({ run, model, settings, config, fitted, place, threads, python, log }: UpdaterSources) {
  const { device, card, note } = place;
  if (note) log(note);
  const { hfWeights, learnerLaunch } = config;
  const { loraRank: rank, loraAlpha: alpha, loraTargets: targets } = settings;
  let said = "";
  return learnerUpdater({
    lifetime: config.learnerLifetime,
    step: {
      objective: {
        ...objectiveOf(settings.loss),
        clipLow: settings.clipLow ?? null,
        clipHigh: settings.clipHigh,
      },
      importance: { mode: settings.importanceSampling, low: settings.importanceMin, high: settings.importanceMax },
      temperature: settings.temperature,
      klCoefficient: settings.kl,
      epochs: settings.iterations,
      minibatches: settings.minibatches,
      maxGradNorm: settings.maxGradNorm,
      microBatchTokens: fitted.microBatchTokens,
      gradientCheckpointing: fitted.gradientCheckpointing,
      maxCompletionTokens: settings.maxTokens * settings.maxTurns,
    },
    start: async (from, signal) => {
      const learner = await startLearner(
        {
          python: await python(signal),
          backend: config.learner,
          base: { gguf: model, ...(hfWeights === undefined ? {} : { hf: hfWeights }) },
          lora: { rank, alpha, targets },
          seed: deriveSeed("learner", settings.seed),
          optimizer: adamOf(fitted.shape.parameters),
          threads,
          ggml: ggmlBase(),
          device,
          precision: config.precision,
          lifetime: config.learnerLifetime,
          logFile: run.logFile("learner.log"),
          cards: learnerLaunch === undefined ? place.cards : learnerCards(card),
          ...(learnerLaunch === undefined ? {} : { launch: learnerLaunch }),
          ...(from === undefined ? {} : { resume: from }),
        },
        { signal },
      );
      try {
        const text = learnerText(learner.info);
        if (text !== said) log(text);
        said = text;
        run.saw("learner", learnerFacts(learner.info));
        return learner;
      } catch (error) {
        // Nobody else has it yet, and its process would keep this one alive.
        await learner.close();
        throw error;
      }
    },
    log,
  });
}
