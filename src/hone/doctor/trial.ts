/**
 * The trial of `hone doctor`, in a process of its own: a driver that crashes ends this process and not the report.
 * A few seconds of rollouts on the engine, an update on them, the new adapter loaded into the engine: a small training
 * step, on the tiny model and without a task.
 */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { chatOf } from "../../chat/chat.js";
import type { LocalEngine } from "../../core/engine/engine.js";
import { type BatchGroup, writeBatch } from "../../core/learn/batch.js";
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
import { mismatchLimit } from "../../guards/mismatch.js";
import { readingOf, readProbe, scoreProbe } from "../../guards/probe.js";
import { engineText } from "../../machine/compute.js";
import { packagesOfPython } from "../../machine/python/given.js";
import { type Check, ok } from "./check.js";
import { adapterCheck, LEARNER_LOG, secondsText, type TrialMessage, type TrialRequest, updateCheck } from "./try.js";

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

const send = (message: TrialMessage) => void process.send?.(message);
const found = (check: Check) => send({ kind: "check", check });
const since = (started: number) => (performance.now() - started) / 1000;

/** Plays for a number of seconds, at least one group. The last group is cut short. */
async function playFor(
  engine: LocalEngine,
  seconds: number,
): Promise<{ records: TokenRecord[]; tokens: number; seconds: number }> {
  const prompt = Int32Array.from(chatOf(engine, {}).template.prompt([{ role: "user", content: QUESTION }], []));
  const records: TokenRecord[] = [];
  let tokens = 0;
  const started = performance.now();
  const signal = AbortSignal.timeout(1000 * seconds);
  for (let round = 0; round === 0 || since(started) < seconds; round++) {
    const played = engine.openGroup(prompt, GROUP).map(async (sequence, index): Promise<TokenRecord> => {
      const seed = round * GROUP + index;
      const turn = await sequence.generate({
        maxTokens: round === 0 ? TOKENS.first : TOKENS.later,
        sampling: { seed },
        stop: [],
        ...(round === 0 ? {} : { signal }),
      });
      sequence.close();
      const given = [...prompt].fill(0);
      const sampled = [...turn.tokens].fill(1);
      return {
        ids: [...prompt, ...turn.tokens],
        sampled: [...given, ...sampled],
        logprobs: [...given, ...turn.logprobs],
      };
    });
    for (const record of await Promise.all(played)) {
      records.push(record);
      tokens += record.ids.length - prompt.length;
    }
  }
  return { records, tokens, seconds: since(started) };
}

async function tryEngine(engine: LocalEngine, seconds: number, loadSeconds: number) {
  const { records, tokens, seconds: took } = await playFor(engine, seconds);
  const { compute } = engine.info;
  const words = engineText(engine.info).replace(/^engine: /, "");
  const facts = { compute, words, loadSeconds, rollouts: records.length, tokens, tokensPerSecond: tokens / took };
  const played = `${facts.rollouts} short rollouts of the tiny model, ${tokens} tokens, ${facts.tokensPerSecond.toFixed(0)} tokens/s`;
  found(ok("rollouts", `${words}; loaded in ${secondsText(loadSeconds)}; ${played}`, facts));
  return records;
}

/** A batch in which every other rollout is the better one. */
async function writeTrialBatch(file: string, records: readonly TokenRecord[]): Promise<void> {
  const group: BatchGroup = records
    .slice(0, LEARNT)
    .map((tokens, index) => ({ tokens, advantage: index % 2 === 0 ? -1 : 1 }));
  await writeBatch(file, [group], { temperature: 1 });
}

async function tryUpdate(engine: LocalEngine, records: readonly TokenRecord[], request: TrialRequest, python: string) {
  const batch = join(request.folder, "batch.safetensors");
  const into = join(request.folder, "checkpoint");
  mkdirSync(into);
  await writeTrialBatch(batch, records);
  const started = performance.now();
  const learner = await startLearner({
    python,
    backend: request.learner,
    base: { gguf: request.model },
    lora: { rank: 8, alpha: 16, targets: LINEAR_LAYERS },
    seed: 1,
    threads: engine.info.threads,
    ggml: ggmlBase(),
    device: learnerDevice(engine.info.gpu).device,
    precision: "auto",
    logFile: join(request.folder, LEARNER_LOG),
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
    const { backend, device, precision } = learner.info;
    found(
      updateCheck({
        backend,
        device,
        precision,
        loadSeconds,
        updateSeconds: metrics.seconds.total,
        peak: metrics.memory.peak,
        mismatch: metrics.mismatch.mean,
        limit: mismatchLimit(engine.info.weightType, engine.info.compute),
        notes: metrics.notes ?? [],
      }),
    );
  } finally {
    await learner.close();
  }
  return join(into, "adapter.gguf");
}

async function trial(request: TrialRequest): Promise<void> {
  const log = (text: string) => send({ kind: "say", text });
  const started = performance.now();
  const options = { model: request.model, sequences: GROUP, contextPerSequence: CONTEXT, ubatch: UBATCH };
  // Nothing is installed: missing libraries are a finding.
  takeDevice(request);
  lookForCuda(request.python === null ? packagesIn() : await packagesOfPython(request.python));
  const engine = await loadEngine(engineOptions(request, options), log);
  try {
    const records = await tryEngine(engine, request.seconds, since(started));
    if (request.python === null) return;
    await engine.sleep();
    const adapter = await tryUpdate(engine, records, request, request.python);
    await engine.useAdapter(adapter);
    await engine.wake();
    const probe = readProbe(adapter);
    const scores = probe && (await scoreProbe(engine, probe));
    if (!scores) throw new Error(`the update left no probe beside ${adapter}`);
    found(adapterCheck(readingOf(probe, scores)));
  } finally {
    await engine.close();
  }
}

process.once("message", (request: TrialRequest) => {
  trial(request)
    .catch((error: unknown) => send({ kind: "failed", message: messageOf(error) }))
    .finally(() => process.disconnect());
});
