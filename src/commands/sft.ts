/** `yarn hone sft`: supervised fine-tuning on a trajectory file. */
import { existsSync } from "node:fs";
import { basename, join, resolve } from "node:path";
import { defineCommand, sizedDefaults, sizeOf } from "../config/index.js";
import { cudaFound, takeDevice } from "../device/index.js";
import { loadEngine, modelFingerprint, usableCores } from "../engine/index.js";
import { bitsOf, CHECKPOINT_FILES, startLearner } from "../learn/index.js";
import { planServers, serverLogs, withServerTools } from "../mcp/index.js";
import { checkTrainable, conversingModel, linesTo, resolveModel } from "../models/index.js";
import { ensurePython, learnerDevice, prepareMachine, pythonFor } from "../python-env/index.js";
import { learnerText, ProgressLine } from "../report/index.js";
import { sealCheckpoint } from "../run/index.js";
import { loadTask } from "../tasks/index.js";
import { openWorkplace, writeImitationBatch } from "../train/index.js";
import { HoneError, hone, UsageError } from "../util/index.js";

/** Supervised fine-tuning takes a higher learning rate than RL, and LoRA a higher one than full training. */
const LEARNING_RATE = {
  tiny: { adapter: 3e-3, full: 1e-3 },
  small: { adapter: 2e-4, full: 1e-5 },
  large: { adapter: 1e-4, full: 5e-6 },
};
/** Share of the updates used for learning-rate warm-up. */
const WARMUP = 0.05;
const MAX_GRAD_NORM = 1;

export const sftCommand = defineCommand({
  name: "sft",
  summary: "Learn from a trajectory file by imitation (supervised fine-tuning).",
  example: `${hone("sft")} rollouts.jsonl --model model.gguf --epochs 2`,
  required: ["file", "model"],
  positional: "file",
  async run(config, io) {
    const file = resolve(config.file);
    if (!existsSync(file))
      throw new UsageError(`sft: there is no file ${file}; \`${hone("rollout")}\` writes such files`);
    takeDevice(config);
    const plain = await loadTask(config.task, config.taskTimeout);
    const task = withServerTools(plain, await planServers(config, plain, config.task, serverLogs(config.home), io));
    const model = await resolveModel(config.model, config, linesTo(io.log, io.signal));
    checkTrainable(await conversingModel(model), model, config.hfWeights !== undefined);
    const stamp = new Date().toISOString().slice(0, 19).replaceAll(":", "-");
    const into = resolve(config.out ?? join(config.home, "sft", stamp));
    const progress = new ProgressLine(io.stream);
    const cuda = (await prepareMachine(config, io.log, true)) || config.gpu === "cuda";
    const found = cuda ? cudaFound() : undefined;
    if (found && found.majors.length === 0) throw new HoneError(`${found.problem}; mend that, or use --gpu off`);
    const backend = cuda ? "cuda" : config.gpu === "vulkan" || config.gpu === "metal" ? config.gpu : false;
    const { device, note } = learnerDevice(backend);
    if (note) io.log(note);
    const python = await ensurePython(pythonFor(config, cuda, io.log));
    const { batch, draft, publish, end } = openWorkplace(into);
    try {
      // Only the tokenizer is used, so the context is minimal.
      const engine = await loadEngine({ model, gpu: false, threads: 1, sequences: 1, contextPerSequence: 64 });
      const size = sizeOf(engine.info.parameters);
      const defaults = sizedDefaults(engine.info.parameters);
      const loraRank = config.loraRank ?? defaults.loraRank;
      const lora = config.fullWeights
        ? null
        : { rank: loraRank, alpha: config.loraAlpha ?? 2 * loraRank, targets: config.loraTargets };
      const learnt = await writeImitationBatch(
        {
          ...{ file, engine, task, successes: config.successes },
          chat: { toolFormat: config.toolFormat, templateArg: config.templateArg },
        },
        batch,
      ).finally(() => engine.close());
      io.log(`${learnt.trajectories} of ${learnt.read} rollouts, ${learnt.sampledTokens} tokens to learn`);
      const onProgress = ({ phase, done, total }: { phase: string; done: number; total: number }) =>
        progress.update(() => `${phase} ${done}/${total}`);
      const learner = await startLearner(
        {
          python,
          backend: config.learner,
          base: { gguf: model, ...(config.hfWeights ? { hf: resolve(config.hfWeights) } : {}) },
          lora,
          seed: config.seed,
          threads: config.threads ?? usableCores(),
          device,
          precision: config.precision,
          optimizer: { bits: bitsOf(config.adamBits) },
          logFile: join(into, "learner.log"),
        },
        { onProgress, signal: io.signal },
      );
      progress.log(learnerText(learner.info));
      const stop = () => void learner.close();
      io.signal.addEventListener("abort", stop, { once: true });
      if (io.signal.aborted) stop();
      try {
        const metrics = await learner.sft({
          batch,
          into: draft,
          learningRate: config.learningRate ?? LEARNING_RATE[size][config.fullWeights ? "full" : "adapter"],
          warmup: WARMUP,
          epochs: config.epochs,
          updateTrajectories: config.updateTrajectories,
          maxGradNorm: config.maxGradNorm ?? MAX_GRAD_NORM,
          microBatchTokens: config.microBatchTokens ?? defaults.microBatchTokens,
          gradientCheckpointing: config.gradientCheckpointing ?? false,
          onProgress,
        });
        progress.clear();
        for (const note of metrics.notes ?? []) io.log(note);
        // With a manifest the folder is a checkpoint that `yarn train --fork` accepts.
        if (lora) {
          const about = { run: basename(into), step: 0, model: modelFingerprint(model), lora };
          await sealCheckpoint(draft, about, CHECKPOINT_FILES.lora);
        }
        publish();
        const written = join(into, config.fullWeights ? "model.gguf" : "adapter.gguf");
        const loss = (value: number | null) => (value === null ? "–" : value.toFixed(3));
        io.log(
          `loss ${loss(metrics.loss.first)} → ${loss(metrics.loss.last)} a token in ${metrics.updates} updates, ${metrics.seconds.total.toFixed(1)} s\nwritten to ${written}`,
        );
        return { ...metrics, batch: learnt, written };
      } finally {
        io.signal.removeEventListener("abort", stop);
        await learner.close();
      }
    } finally {
      progress.clear();
      end();
    }
  },
});
