/** The parts of `replay` that are the learner's: the batch, and the update from the checkpoint before the step. */
import { existsSync } from "node:fs";
import { join } from "node:path";
import { stepOfBatch, writeBatch } from "../../core/learn/batch.js";
import { readFloats } from "../../core/learn/safetensors.js";
import { ADAPTER_FILE, Checkpoints } from "../../core/run/checkpoints.js";
import { adapterTypeIn } from "../../core/run/numerics.js";
import { BATCH_FILE } from "../../core/run/run.js";
import type { RunSettings } from "../../core/run/settings.js";
import { batchOf, meanOver } from "../../core/train/credit.js";
import { refuse } from "../../core/train/guard.js";
import { sha256OfFile } from "../../core/util/files.js";
import { deriveSeed } from "../../core/util/random.js";
import { checkAsked } from "../../guards/asked.js";
import { pythonFor } from "../../machine/python/machine.js";
import { ensurePython } from "../../machine/python/python.js";
import type { RunPlan } from "../plan-run.js";
import { openUpdater } from "../updater.js";
import type { KeptStep, ReplayCheck, ReplayedGroups, ReplayIo } from "./types.js";

/**
 * Largest relative differences of the gradient's norm and of the adapter's change that count as rounding. In f32 with other vector
 * instructions (AVX2, and SSE with MKL's compatible mode, in place of AVX-512) the third step of the tiny model had norms that
 * differed by 4e-6 and changes that differed by 8e-5 at most. For 16 bits an estimate: on a card it was not measured.
 */
const ROUNDING = { f32: { gradNorm: 1e-3, change: 0.01 }, other: { gradNorm: 0.05, change: 0.5 } };

const batchFile = (scratch: string) => join(scratch, BATCH_FILE);

/** Whether a run's batch file is of a step; of one without a number, as runs of before have it, by the steps that the run has. */
const isOf = (step: number | undefined, { at, isLastUpdate }: Pick<KeptStep, "at" | "isLastUpdate">) =>
  step === undefined ? isLastUpdate : step === at.step;

/** Writes the step's batch into the folder `scratch`, and compares it with the run's where that is of this step. */
export async function replayBatch(
  { folder, at, isLastUpdate }: Pick<KeptStep, "folder" | "at" | "isLastUpdate">,
  { groups, further, inOrder }: ReplayedGroups,
  { kl, temperature }: RunSettings,
  scratch: string,
): Promise<ReplayCheck> {
  const part = "batch";
  const batch = batchOf(groups, { kl, further });
  if (batch.length === 0) return { part, result: "skipped", text: "no group has a gradient" };
  const stored = join(folder, BATCH_FILE);
  const step = existsSync(stored) ? stepOfBatch(stored) : undefined;
  const { tokens, trajectories } = await writeBatch(batchFile(scratch), batch, { temperature, step });
  if (!existsSync(stored) || !isOf(step, { at, isLastUpdate })) {
    const whose = step !== undefined && step > at.step ? `, and has that of step ${step}` : "";
    return { part, result: "skipped", text: `a run keeps the batch of its last update alone${whose}` };
  }
  const text = `${tokens} tokens of ${trajectories} rollouts`;
  if ((await sha256OfFile(stored)) === (await sha256OfFile(batchFile(scratch)))) return { part, result: "same", text };
  if (inOrder) return { part, result: "differs", text: `${text}: other bytes than ${stored}` };
  return { part, result: "skipped", text: "a program chose the order of the groups, which is not stored" };
}

interface UpdateReplay extends ReplayIo {
  readonly plan: RunPlan;
  /** With the batch file. */
  readonly scratch: string;
}

/** Makes the step's update again, from the checkpoint before it. */
export async function replayUpdate(
  kept: KeptStep,
  { groups, further }: ReplayedGroups,
  { plan, scratch, log, signal }: UpdateReplay,
): Promise<ReplayCheck> {
  const { at, before, folder } = kept;
  const part = "update";
  const skip = (text: string): ReplayCheck => ({ part, result: "skipped", text });
  const metrics = at.metrics;
  if (!metrics?.updates || at.checkpoint === before.checkpoint) return skip("the step changed nothing");
  const checkpoints = new Checkpoints(join(folder, "checkpoints"));
  const from = before.checkpoint === null ? undefined : checkpoints.pathOf(before.checkpoint);
  if (from !== undefined && !existsSync(from)) {
    return skip(`the checkpoint ${before.checkpoint} that it began from was deleted: train with a larger --keep`);
  }

  if (!existsSync(batchFile(scratch))) {
    return { part, result: "differs", text: "the step made an update, and no group has a gradient now" };
  }

  const { settings, backend, learnerThreads: threads } = plan;
  const python = pythonFor(plan.config, backend === "cuda", log);
  const updater = openUpdater({
    ...{ ...plan, threads, log },
    run: { logFile: (name) => join(scratch, name), saw: () => undefined },
    python: (signal) => ensurePython({ ...python, signal }),
  });
  const into = join(scratch, "checkpoint");
  try {
    const learnt = await updater.update({
      ...{ batch: batchFile(scratch), into, from, adapter: before.adapter, learningRate: metrics.learning_rate },
      ...meanOver(groups, further),
      adapterType: adapterTypeIn(at.timing?.numerics ?? ""),
      seed: deriveSeed("minibatches", settings.seed, at.step),
      signal,
      onAsk: async (asked) => refuse(checkAsked(asked, settings)),
      onProgress: () => undefined,
    });
    if (!learnt.applied) return { part, result: "differs", text: `it was not applied now: ${learnt.skipped}` };
    if (at.adapter === (await sha256OfFile(join(into, ADAPTER_FILE)))) {
      return { part, result: "same", text: `the adapter of checkpoint ${at.checkpoint}, bit for bit` };
    }
    const limits = learnt.precision === "f32" ? ROUNDING.f32 : ROUNDING.other;
    const gradNorm = relative(learnt.gradNorm, metrics.grad_norm);
    const norm = `gradient norm ${learnt.gradNorm} now, ${metrics.grad_norm} then`;
    const after = checkpoints.pathOf(at.checkpoint as number);
    if (!existsSync(after)) {
      const result = gradNorm <= limits.gradNorm ? "close" : "differs";
      return {
        part,
        result,
        text: `other bytes than the adapter of checkpoint ${at.checkpoint}, which was deleted; ${norm}`,
      };
    }
    const change = await distance(into, after, from);
    const result = gradNorm <= limits.gradNorm && change <= limits.change ? "close" : "differs";
    const text = `the adapter differs by ${(100 * change).toPrecision(2)} % of the step's change; ${norm}`;
    return { part, result, text };
  } finally {
    await updater.close();
  }
}

function relative(now: number | null, was: number | null): number {
  if (now === null || was === null) return now === was ? 0 : Number.POSITIVE_INFINITY;
  return Math.abs(now - was) / Math.max(Math.abs(was), Number.MIN_VALUE);
}

/** Norm of the difference of two adapters, as a share of the norm of the change from `from`, or from an adapter of zeros. */
async function distance(one: string, other: string, from: string | undefined): Promise<number> {
  const read = (folder: string) => readFloats(join(folder, "adapter/adapter_model.safetensors"));
  const [a, b, start] = await Promise.all([read(one), read(other), from === undefined ? undefined : read(from)]);
  let difference = 0;
  let change = 0;
  for (const [name, values] of b) {
    const now = a.get(name);
    const then = start?.get(name);
    values.forEach((value, i) => {
      difference += (value - (now?.[i] ?? 0)) ** 2;
      change += (value - (then?.[i] ?? 0)) ** 2;
    });
  }
  return Math.sqrt(difference / Math.max(change, Number.MIN_VALUE));
}
