/** What a planned run computes on: devices and cores of engine and learner, and the settings that fit its memory. */
import { sizedDefault } from "../core/config/config.js";
import { ROLLOUTS_AT_ONCE } from "../core/config/defaults.js";
import type { RunSettings } from "../core/run/settings.js";
import { UsageError } from "../core/util/errors.js";
import { contextsOf } from "../engine/contexts.js";
import { learnerPlace } from "../engine/device/learner-place.js";
import type { NvidiaGpu } from "../engine/device/nvidia.js";
import { drawsOnDevice, gpuChosen } from "../engine/engine-options.js";
import { gpuMemory } from "../engine/load.js";
import type { ModelShape } from "../engine/models.js";
import type { LocalJudgePlan } from "../judge/reward/local-judge.js";
import { fitToMachine } from "../machine/plan/fit.js";
import type { BaseLoad, PlanInput, Served } from "../machine/plan/input.js";
import { mainMemory } from "../machine/plan/machine.js";
import { prepareMachine } from "../machine/python/machine.js";
import { checkAwake, dividedCores, sharesCard } from "./apart.js";
import type { Model } from "./model.js";
import type { TrainConfig } from "./train-options.js";

/** Devices and cores of engine and learner. */
export async function machineOf(config: TrainConfig, { staleness }: RunSettings, log: (line: string) => void) {
  await prepareMachine(config, log, true);
  const gpu = await gpuMemory(gpuChosen(config));
  if (config.learnerLifetime === "offload" && (gpu?.kind !== "cuda" || config.learnerDevice === "cpu")) {
    throw new UsageError(
      "--learner-lifetime offload moves the learner off an NVIDIA GPU, and here it computes on the CPU; use --learner-lifetime step to give its memory back",
    );
  }
  const backend = gpu?.kind ?? false;
  const place = learnerPlace(config.learnerDevice, backend);
  const apart = place.apart || (staleness > 0 && !sharesCard(config, gpu));
  if (apart) checkAwake(config);
  const cores = dividedCores(config, staleness, gpu !== null);
  return { config: { ...config, threads: cores.engine }, gpu, backend, place, apart, learnerThreads: cores.learner };
}

/** The engine beside it. */
interface Beside {
  readonly sequences: number;
  readonly contextPerSequence: number;
  readonly gpu: PlanInput["gpu"];
}

interface Fitting {
  readonly settings: RunSettings;
  readonly shape: ModelShape;
  readonly judge: LocalJudgePlan | undefined;
  /** Sizes of an agent's frozen base. */
  readonly base: ((beside: Beside) => BaseLoad) | undefined;
  readonly machine: Awaited<ReturnType<typeof machineOf>>;
  /** Loaded. */
  readonly model: Model | undefined;
  readonly log: (line: string) => void;
}

export function memoryOf({ settings, shape, judge, base, machine, model, log }: Fitting): PlanInput {
  const { config, gpu, place, apart } = machine;
  const most = Math.min(settings.groupsPerStep * settings.groupSize, gpu ? ROLLOUTS_AT_ONCE.gpu : ROLLOUTS_AT_ONCE.cpu);
  const concurrency = model?.concurrency ?? config.concurrency ?? most;
  const { lanes, ubatch } = contextsOf(
    { threads: config.threads, sequences: concurrency },
    shape.bytes,
    gpu?.kind ?? false,
  );
  return fitToMachine(
    {
      shape,
      concurrency,
      context: settings.context,
      loraRank: settings.loraRank,
      loraTargets: settings.loraTargets,
      microBatchTokens: settings.microBatchTokens,
      gradientCheckpointing: config.gradientCheckpointing ?? false,
      learnerLifetime: config.learnerLifetime,
      releaseWeights: config.releaseWeights,
      gpu: gpu?.kind ?? false,
      learnerOn: place.card ? "own card" : config.learnerDevice === "cpu" ? "cpu" : "engine's",
      awake: apart,
      precision: config.precision,
      hfWeights: config.hfWeights !== undefined,
      learner: config.learner,
      lanes,
      ubatch,
      sampling: drawsOnDevice("auto", gpu?.kind ?? false) ? "device" : "host",
      decoder: config.decoder,
      served: servedBy(config, gpu),
      base: base?.({ sequences: concurrency, contextPerSequence: settings.context, gpu: gpu?.kind ?? false }),
      judge: judge ?? null,
    },
    {
      concurrency: config.concurrency === undefined,
      gradientCheckpointing: config.gradientCheckpointing === undefined,
      microBatchTokens:
        config.microBatchTokens === undefined &&
        settings.microBatchTokens === sizedDefault("microBatchTokens", shape.parameters),
    },
    {
      host: mainMemory(),
      gpu: gpu && { name: gpu.name, total: gpu.total, available: gpu.free },
      learnerGpu: place.card ? cardMemory(place.card) : null,
      loaded: model !== undefined,
    },
    log,
  );
}

/** The servers of the engine, as the plan counts them. */
function servedBy(
  { engine, engineUrl, engineMemory }: TrainConfig,
  gpu: { readonly kind: string | false; readonly total: number } | null,
): Served | undefined {
  if (engine !== "vllm") return undefined;
  if (engineUrl !== undefined) return { own: null };
  const onGpu = gpu?.kind === "cuda";
  return { own: { rests: onGpu ? "sleeps" : "stays", gpu: onGpu ? engineMemory * gpu.total : 0 } };
}

/** As nvidia-smi says it; what other programs use of that card is not known before the learner is there. */
function cardMemory({ name, memoryBytes = Number.POSITIVE_INFINITY }: NvidiaGpu) {
  return { name, total: memoryBytes, available: memoryBytes };
}
