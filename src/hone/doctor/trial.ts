/**
 * The trial of `hone doctor`, in a process of its own: a driver that crashes ends this process and not the report.
 * A few seconds of rollouts on the engine, an update on them, the new adapter loaded into the engine: a small training
 * step, on the tiny model and without a task.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chatOf } from "../../chat/chat.js";
import type { LocalEngine } from "../../core/engine/engine.js";
import { writeBatch } from "../../core/learn/batch.js";
import { startLearner } from "../../core/learn/learner.js";
import { objectiveOf } from "../../core/learn/objectives.js";
import { LINEAR_LAYERS } from "../../core/learn/types.js";
import type { TokenRecord } from "../../core/rollout/transcript.js";
import { messageOf } from "../../core/util/errors.js";
import { learnerDevice } from "../../engine/device/build.js";
import { lookForCuda, takeDevice } from "../../engine/device/device.js";
import { packagesIn } from "../../engine/device/runtime.js";
import { engineOptions } from "../../engine/engine-options.js";
import { loadEngine } from "../../engine/factory.js";
import { ggmlBase } from "../../engine/missing.js";
import { modelFile } from "../../engine/models.js";
import { mismatchLimit } from "../../guards/mismatch.js";
import { readingOf, readProbe, scoreProbe } from "../../guards/probe.js";
import { engineText } from "../../machine/compute.js";
import { packagesOfPython } from "../../machine/python/given.js";
import { type Check, none, ok } from "./check.js";
import {
  adapterCheck,
  LEARNER_LOG,
  STAGES,
  secondsText,
  type TrialMessage,
  type TrialRequest,
  updateCheck,
} from "./try.js";

/** Seconds of rollouts. */
const PLAYED = 5;
/** Few concurrent rollouts and short passes: a Vulkan driver compiles kernels for each number of rows up to eight. */
const GROUP = 2;
const UBATCH = 32;
const CONTEXT = 256;
const QUESTION = "Who sent the last invoice, and when?";
/**
 * Tokens of a rollout, end tokens included; fewer in the first group, which the update needs as a whole, so that it ends on a
 * slow device. With its prompt of 19 tokens, the two passes that score such a sequence (32 and 11 rows) have log-probabilities
 * in more than 8 rows each, and the rollouts of a group decode side by side to their end: neither needs kernels of its own.
 */
const TOKENS = { first: 24, later: 64 };
/**
 * Learning rate of the update: its adapter moves log-probabilities by some 0.03 nats, ten times a device's rounding, which
 * shows whether the engine plays it.
 */
const LEARNING_RATE = 0.05;
/** Number of rollouts of the update. */
const LEARNT = 16;

const model = modelFile("tiny");

const send = (message: TrialMessage) => void process.send?.(message);
const since = (started: number) => (performance.now() - started) / 1000;

/** Plays for some seconds, at least one group. The last group is cut short. */
async function play(engine: LocalEngine, loadSeconds: number) {
  const prompt = Int32Array.from(chatOf(engine, {}).template.prompt([{ role: "user", content: QUESTION }], []));
  const given = [...prompt].fill(0);
  const records: TokenRecord[] = [];
  const started = performance.now();
  const signal = AbortSignal.timeout(1000 * PLAYED);
  for (let round = 0; round === 0 || !signal.aborted; round++) {
    const length = round === 0 ? { maxTokens: TOKENS.first } : { maxTokens: TOKENS.later, signal };
    const played = engine.openGroup(prompt, GROUP).map(async (sequence, index): Promise<TokenRecord> => {
      const turn = await sequence.generate({ ...length, sampling: { seed: round * GROUP + index }, stop: [] });
      sequence.close();
      return {
        ids: [...prompt, ...turn.tokens],
        sampled: [...given, ...[...turn.tokens].fill(1)],
        logprobs: [...given, ...turn.logprobs],
      };
    });
    records.push(...(await Promise.all(played)));
  }
  const tokens = records.reduce((sum, { ids }) => sum + ids.length - prompt.length, 0);
  const tokensPerSecond = tokens / since(started);
  const words = engineText(engine.info).replace(/^engine: /, "");
  const found = `${words}; loaded in ${secondsText(loadSeconds)}; ${records.length} short rollouts of the tiny model, ${tokens} tokens, ${tokensPerSecond.toFixed(0)} tokens/s`;
  const { compute } = engine.info;
  const facts = { compute, words, loadSeconds, rollouts: records.length, tokens, tokensPerSecond };
  return { records, check: ok("rollouts", found, facts) };
}

/** The new adapter, and what the update was like. */
async function learn(engine: LocalEngine, records: readonly TokenRecord[], request: TrialRequest, python: string) {
  const { folder } = request;
  const batch = join(folder, "batch.safetensors");
  const into = join(folder, "checkpoint");
  mkdirSync(into);
  // Every other rollout is the better one.
  const group = records.slice(0, LEARNT).map((tokens, index) => ({ tokens, advantage: index % 2 === 0 ? -1 : 1 }));
  await writeBatch(batch, [group], { temperature: 1 });
  const started = performance.now();
  const learner = await startLearner({
    python,
    backend: request.learner,
    base: { gguf: model },
    lora: { rank: 8, alpha: 16, targets: LINEAR_LAYERS },
    seed: 1,
    threads: engine.info.threads,
    ggml: ggmlBase(),
    device: learnerDevice(engine.info.gpu).device,
    precision: "auto",
    logFile: join(folder, LEARNER_LOG),
  });
  try {
    const loadSeconds = since(started);
    const metrics = await learner.step({
      batch,
      into,
      objective: objectiveOf("dapo"),
      importance: { mode: "token-truncate", low: 0, high: 2 },
      learningRate: LEARNING_RATE,
      klCoefficient: 0,
      maxGradNorm: 1,
      microBatchTokens: 1024,
      gradientCheckpointing: false,
    });
    if (!metrics.applied) throw new Error(`the ${metrics.skipped} of the update was not a finite number`);
    const limit = mismatchLimit(engine.info.weightType, engine.info.compute);
    return { adapter: join(into, "adapter.gguf"), check: updateCheck(learner.info, metrics, { loadSeconds, limit }) };
  } finally {
    await learner.close();
  }
}

async function* trial(request: TrialRequest): AsyncGenerator<Check> {
  const { python } = request;
  const started = performance.now();
  const options = { model, sequences: GROUP, contextPerSequence: CONTEXT, ubatch: UBATCH };
  // Nothing is installed: missing libraries are a finding.
  takeDevice(request);
  lookForCuda(python === null ? packagesIn() : await packagesOfPython(python));
  const engine = await loadEngine(engineOptions(request, options), (say) => send({ say }));
  try {
    const { records, check: rollouts } = await play(engine, since(started));
    yield rollouts;
    if (python === null) {
      yield none("update", "not tried: there is no Python that could learn");
      return yield none("adapter", STAGES[2].untried);
    }
    await engine.sleep();
    const { adapter, check: update } = await learn(engine, records, request, python);
    yield update;
    await engine.useAdapter(adapter);
    await engine.wake();
    const probe = readProbe(adapter);
    const scores = probe && (await scoreProbe(engine, probe));
    if (!scores) throw new Error(`the update left no probe beside ${adapter}`);
    yield adapterCheck(readingOf(probe, scores));
  } finally {
    await engine.close();
  }
}

process.once("message", async (request: TrialRequest) => {
  try {
    for await (const check of trial(request)) send({ check });
  } catch (error) {
    send({ failed: messageOf(error) });
  }
  process.disconnect();
});
