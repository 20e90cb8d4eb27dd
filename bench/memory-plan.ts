/**
 * `yarn memory-plan`: compares the memory of engine and learner on this machine's CPU with the plan of src/machine/plan, and writes it
 * to bench/results. Every configuration runs in its own processes, one after the other; the kernel reports their memory.
 */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import type { LocalEngineOptions } from "../src/core/engine/engine.js";
import { startLearner } from "../src/core/learn/learner.js";
import { objectiveOf } from "../src/core/learn/objectives.js";
import { LINEAR_LAYERS } from "../src/core/learn/types.js";
import { contextsOf } from "../src/engine/contexts.js";
import { loadEngine } from "../src/engine/factory.js";
import { ggmlBase } from "../src/engine/missing.js";
import { type ModelShape, modelFile, modelShape } from "../src/engine/models.js";
import { typicalRow } from "../src/machine/plan/learner-memory.js";
import { ensurePython } from "../src/machine/python/python.js";
import { hardwareOf, versionsOf } from "./hardware.js";
import { ensureTestModels, modelPath } from "./models.js";
import { type EngineMeasured, type MemoryRow, nameOf, plannedFor } from "./planned-memory.js";
import { writeRandomBatch } from "./random-batch.js";
import { saveRows } from "./results.js";

const usage = `yarn memory-plan [options]     planned and measured memory on the CPU, in an hour on a small one

  --models tiny,0.5b      the tiny model that comes with hone, and random weights in the shape of Qwen2-0.5B; or GGUF files
  --parts engine,learner  what is measured
  --tokens 512,4096       micro-batches of the learner
  --contexts 2048,8192    of the engine
  --concurrency 4,16      of the engine
  --lanes N, --ubatch N, --sampling device
                          of the engine, as for the options of \`yarn train\`
  --threads N             CPU threads (default 1)
  --checkpointing on,off  gradient checkpointing of the learner`;

/** A value of /proc/PID/status in bytes. */
function status(pid: number | "self", key: string): number {
  const text = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`^${key}:\\s+(\\d+) kB$`, "m").exec(text)?.[1]) * 1024;
}

interface EngineCase {
  readonly model: string;
  readonly concurrency: number;
  readonly context: number;
  readonly more: Pick<LocalEngineOptions, "threads" | "lanes" | "ubatch" | "sampling">;
}

type EngineBytes = Pick<EngineMeasured, "peak" | "anonymous">;

/** Loads an engine in this process and fills one sequence of each lane, so that all buffers are in use. */
async function runEngine({ model, concurrency, context, more }: EngineCase): Promise<EngineBytes> {
  const options = { model, gpu: false, sequences: concurrency, contextPerSequence: context, ...more } as const;
  const engine = await loadEngine(options);
  const prompts = Array.from({ length: engine.info.lanes }, (_, lane) =>
    Int32Array.from({ length: context - 4 }, (_, i) => (i * 7 + lane + 1) % engine.info.vocabularySize),
  );
  const sequences = prompts.map((prompt) => engine.open(prompt));
  await Promise.all(sequences.map((one, seed) => one.generate({ maxTokens: 2, sampling: { seed }, stop: [] })));
  for (const sequence of sequences) sequence.close();
  // The maximum number of rows of logits returned at once.
  await engine.score((prompts[0] as Int32Array).subarray(0, 128));
  const measured = { peak: status("self", "VmHWM"), anonymous: status("self", "RssAnon") };
  await engine.close();
  return measured;
}

async function runLearner(model: string, vocabulary: number, tokens: number, checkpointing: boolean, threads: number) {
  const folder = mkdtempSync(join(tmpdir(), "hone-memory-"));
  const batch = join(folder, "batch.safetensors");
  await writeRandomBatch(batch, [typicalRow(tokens)], vocabulary);
  const learner = await startLearner({
    python: await ensurePython(),
    backend: "peft",
    base: { gguf: model },
    lora: { rank: 8, alpha: 16, targets: LINEAR_LAYERS },
    seed: 1,
    optimizer: { betas: [0.9, 0.99], weightDecay: 0.1 },
    threads,
    device: "cpu",
    precision: "f32",
    ggml: ggmlBase(),
    logFile: join(folder, "log"),
  });
  try {
    const loading = status(learner.pid, "VmHWM");
    const { memory } = await learner.step({
      batch,
      into: join(folder, "checkpoint"),
      objective: objectiveOf("dapo"),
      importance: { mode: "token-truncate", low: 0, high: 2 },
      learningRate: 1e-6,
      klCoefficient: 0,
      maxGradNorm: 1,
      microBatchTokens: tokens,
      gradientCheckpointing: checkpointing,
    });
    return { loading, peak: memory.peak };
  } finally {
    await learner.close();
    rmSync(folder, { recursive: true });
  }
}

const errors: number[] = [];
function report(name: string, planned: number, measured: number): void {
  const error = planned / measured - 1;
  errors.push(Math.abs(error));
  const megabytes = (bytes: number) => `${(bytes / 1e6).toFixed(0)} MB`.padStart(9);
  const percent = `${error < 0 ? "" : "+"}${(100 * error).toFixed(1)} %`.padStart(8);
  console.log(`${name.padEnd(52)} planned ${megabytes(planned)}  measured ${megabytes(measured)}  ${percent}`);
}

function save(row: MemoryRow): void {
  const { peak, loading } = plannedFor(row);
  const name = `${row.model}: ${nameOf(row)}`;
  if (row.part === "learner") report(`${name}, loading`, loading as number, row.loading);
  report(name, peak, row.peak);
  const idOf = (one: MemoryRow) =>
    JSON.stringify([
      one.model,
      nameOf(one),
      one.threads,
      one.part === "engine" && [one.lanes, one.ubatch, one.sampling],
    ]);
  saveRows("memory-plan", { hardware: hardwareOf(undefined), versions: versionsOf(undefined), rows: [row] }, idOf);
}

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: {
      models: { type: "string", default: "tiny,0.5b" },
      parts: { type: "string", default: "engine,learner" },
      tokens: { type: "string", default: "512,1024,2048,4096" },
      contexts: { type: "string", default: "2048,8192" },
      concurrency: { type: "string", default: "4,16" },
      threads: { type: "string", default: "1" },
      checkpointing: { type: "string", default: "on,off" },
      lanes: { type: "string" },
      ubatch: { type: "string" },
      sampling: { type: "string" },
      "run-engine": { type: "string" },
      help: { type: "boolean", default: false },
    },
  });
  if (values.help) {
    console.log(usage);
    return;
  }
  if (values["run-engine"] !== undefined) {
    console.log(JSON.stringify(await runEngine(JSON.parse(values["run-engine"]) as EngineCase)));
    return;
  }
  const names = values.models.split(",");
  const numbers = (text: string) => text.split(",").map(Number);
  const threads = Number(values.threads);
  const sampling = values.sampling === "device" ? "device" : "host";
  const more: EngineCase["more"] = {
    threads,
    sampling,
    ...(values.lanes === undefined ? {} : { lanes: Number(values.lanes) }),
    ...(values.ubatch === undefined ? {} : { ubatch: Number(values.ubatch) }),
  };
  if (names.includes("0.5b")) await ensureTestModels(["0.5b"], (line) => console.error(line));
  for (const name of names) {
    const known: Record<string, string> = { tiny: modelFile("tiny"), "0.5b": modelPath("qwen2-0.5b-shape-f16.gguf") };
    const model = known[name] ?? resolve(name);
    const { architecture, bytes, parameters, weightType, layers, embedding, feedForward, ...rest } =
      await modelShape(model);
    const { heads, kvHeads, headSize, vocabulary, trainedContext, window } = rest;
    const shape: ModelShape = {
      architecture,
      bytes,
      parameters,
      weightType,
      layers,
      embedding,
      feedForward,
      heads,
      kvHeads,
      headSize,
      vocabulary,
      trainedContext,
      ...(window === undefined ? {} : { window }),
    };
    const of = { model: basename(model), threads, shape };
    if (values.parts.includes("engine")) {
      for (const context of numbers(values.contexts)) {
        for (const concurrency of numbers(values.concurrency)) {
          const wanted: EngineCase = { model, concurrency, context, more };
          const arguments_ = [fileURLToPath(import.meta.url), "--run-engine", JSON.stringify(wanted)];
          const done = spawnSync(process.execPath, arguments_, { encoding: "utf8" });
          if (done.status !== 0) throw new Error(`the engine failed: ${done.stderr.trim().split("\n").at(-1)}`);
          const { lanes, ubatch } = contextsOf({ ...more, sequences: concurrency }, bytes, false);
          const measured = JSON.parse(done.stdout) as EngineBytes;
          save({ part: "engine", ...of, concurrency, context, lanes, ubatch, sampling, ...measured });
        }
      }
    }
    if (!values.parts.includes("learner")) continue;
    for (const tokens of numbers(values.tokens)) {
      for (const checkpointing of values.checkpointing.split(",").map((text) => text === "on")) {
        const { loading, peak } = await runLearner(model, vocabulary, tokens, checkpointing, threads);
        save({ part: "learner", ...of, tokens, checkpointing, loading, peak });
      }
    }
  }
  console.log(`largest error ${(100 * Math.max(...errors)).toFixed(1)} % of ${errors.length}`);
}

await main();
