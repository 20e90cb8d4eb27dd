/** Supervised fine-tuning on a trajectory file: `yarn hone sft` is this function and its output. */
import { existsSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { serverLogs, withServers } from "../agent/servers.js";
import { type Config, givenByProgram, sizedDefaults, withDefaults } from "../core/config/config.js";
import { sizeOf } from "../core/config/sizes.js";
import type { LocalEngineInfo } from "../core/engine/engine.js";
import { CHECKPOINT_FILES, startLearner } from "../core/learn/learner.js";
import { sealCheckpoint } from "../core/run/checkpoints.js";
import { HoneError, UsageError } from "../core/util/errors.js";
import { hone } from "../core/util/program.js";
import { onAbort, unlessAborted } from "../core/util/signals.js";
import { learnerDevice } from "../engine/device/build.js";
import { cudaFound, learnerCards, takeDevice } from "../engine/device/device.js";
import { loadEngine } from "../engine/factory.js";
import { ggmlBase } from "../engine/missing.js";
import { modelFingerprint } from "../engine/models.js";
import { usableCores } from "../engine/threads.js";
import { checkTrainable, conversingModel } from "../machine/models/header.js";
import { resolveModel } from "../machine/models/resolve.js";
import { prepareMachine, pythonFor } from "../machine/python/machine.js";
import { ensurePython } from "../machine/python/python.js";
import { loadTask } from "../scenarios/load.js";
import { checkChoice } from "./checked.js";
import { checkLaunch } from "./learner-options.js";
import { type SftChoice, type SftOption, type SftOptions, type SftSummary, sftOptions } from "./sft-options.js";
import { IMITATION } from "./training-options.js";
import { openWorkplace, writeImitationBatch } from "./warm-start.js";

/** Share of the updates used for learning-rate warm-up. */
const WARMUP = 0.05;

/** The backend that the learner's device is chosen by. */
async function backendOf(config: Config<SftOption>, log: (line: string) => void): Promise<LocalEngineInfo["gpu"]> {
  const cuda = (await prepareMachine(config, log, true)) || config.gpu === "cuda";
  const found = cuda ? cudaFound() : undefined;
  if (found && found.majors.length === 0) throw new HoneError(`${found.problem}; mend that, or use --gpu off`);
  if (cuda) return "cuda";
  return config.gpu === "vulkan" || config.gpu === "metal" ? config.gpu : false;
}

const CHOICE = { log: true, onLearner: true, onProgress: true, signal: true } satisfies Record<keyof SftChoice, true>;

/** See `sft`. */
export async function imitate(options: SftOptions, choice: SftChoice): Promise<SftSummary> {
  checkChoice("sft(): the second argument", choice, CHOICE);
  const {
    log = () => undefined,
    onLearner,
    onProgress = () => undefined,
    signal = new AbortController().signal,
  } = choice;
  const config = withDefaults(sftOptions, await givenByProgram(options, sftOptions));
  const lacking = (["file", "model"] as const).find((name) => config[name] === undefined);
  if (lacking) throw new UsageError(`sft needs ${lacking}`);
  const file = resolve(config.file as string);
  if (!existsSync(file)) {
    throw new UsageError(`sft: there is no file ${file}; \`${hone("rollout")}\` writes such files`);
  }
  checkLaunch(config);
  takeDevice(config);
  const plain = await loadTask(config.task, config.taskTimeout);
  const { task } = await withServers(config, plain, config.task, serverLogs(config.home), { log, signal });
  const model = await resolveModel(config.model as string, config, { log, signal });
  checkTrainable(await conversingModel(model), model, config.hfWeights !== undefined);
  const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
  const into = resolve(config.out ?? join(config.home, "sft", stamp));
  const backend = await backendOf(config, log);
  const { device, note } = learnerDevice(backend);
  if (note) log(note);
  const python = await ensurePython({ ...pythonFor(config, backend === "cuda", log), signal });
  const { batch, draft, publish, end } = openWorkplace(into);
  try {
    // Only the tokenizer is used, so the context is minimal.
    const engine = await loadEngine({ model, gpu: false, threads: 1, sequences: 1, contextPerSequence: 64 });
    const { parameters } = engine.info;
    const defaults = sizedDefaults(parameters);
    const rank = config.loraRank ?? defaults.loraRank;
    const lora = config.fullWeights
      ? null
      : { rank, alpha: config.loraAlpha ?? defaults.loraAlpha, targets: config.loraTargets };
    const learnt = await writeImitationBatch(
      {
        file,
        engine,
        task,
        successes: config.successes,
        chat: { toolFormat: config.toolFormat, templateArg: config.templateArg },
      },
      batch,
    ).finally(() => engine.close());
    log(`${learnt.trajectories} of ${learnt.read} rollouts, ${learnt.sampledTokens} tokens to learn`);
    const starting = startLearner(
      {
        python,
        backend: config.learner,
        base: { gguf: model, ...(config.hfWeights ? { hf: resolve(config.hfWeights) } : {}) },
        lora,
        seed: config.seed,
        threads: config.threads ?? usableCores(),
        ggml: ggmlBase(),
        device,
        precision: config.precision,
        ...(config.learnerLaunch === undefined ? {} : { launch: config.learnerLaunch, cards: learnerCards() }),
        logFile: join(into, "learner.log"),
      },
      { onProgress, signal },
    );
    const learner = await unlessAborted(starting, signal);
    onLearner?.(learner.info);
    using _stopping = onAbort(signal, () => void learner.close());
    try {
      const learning = learner.sft({
        batch,
        into: draft,
        learningRate:
          config.learningRate ??
          (config.fullWeights ? defaults.learningRate : IMITATION.learningRate[sizeOf(parameters)]),
        warmup: WARMUP,
        epochs: config.epochs,
        updateTrajectories: config.updateTrajectories,
        maxGradNorm: config.maxGradNorm ?? IMITATION.maxGradNorm,
        microBatchTokens: config.microBatchTokens ?? defaults.microBatchTokens,
        gradientCheckpointing: config.gradientCheckpointing ?? false,
        onProgress,
      });
      // That the learner was closed is not why.
      const metrics = await unlessAborted(learning, signal);
      for (const line of metrics.notes ?? []) log(line);
      // With a manifest the folder is a checkpoint that `yarn train --fork` accepts.
      if (lora) {
        const about = { run: basename(into), step: 0, model: modelFingerprint(model), lora };
        await sealCheckpoint(draft, about, CHECKPOINT_FILES.lora);
      }
      publish();
      return { ...metrics, batch: learnt, written: join(into, config.fullWeights ? "model.gguf" : "adapter.gguf") };
    } finally {
      await learner.close();
    }
  } finally {
    end();
  }
}
