/**
 * Decoding against node-llama-cpp's own loop in JavaScript, in this process and on the same libraries: 16 sequences
 * that each request the next token and its probability (`confidence`). Once from the whole distribution, as
 * reinforcement learning needs it and as ours does; once with top-k 40, which is faster in node-llama-cpp.
 */
import type { Llama, LlamaContext, SequenceEvaluateOptions, Token } from "node-llama-cpp";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import {
  compare,
  type DecodeSettings,
  decodeLength,
  decodeSpeed,
  modelName,
  randomTokens,
  shares,
} from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, Row } from "../row.js";

const name = "decode/node-llama-cpp";

/** Never disposed, which would shut down the llama.cpp that the engine uses. */
let llama: Llama | undefined;

async function theirContext(engine: LocalEngine, sequences: number): Promise<LlamaContext> {
  const { getLlama, LlamaLogLevel } = await import("node-llama-cpp");
  const { gpu, threads } = engine.info;
  const quiet = { progressLogs: false, logLevel: LlamaLogLevel.error } as const;
  llama ??= await getLlama({ gpu, build: "never", skipDownload: true, maxThreads: threads, ...quiet });
  const { info } = engine;
  const model = await llama.loadModel({ modelPath: info.model, gpuLayers: info.gpu === false ? 0 : "max" });
  return model.createContext({
    sequences,
    contextSize: info.contextPerSequence,
    batchSize: info.ubatch,
    threads: info.threads,
  });
}

async function theirSpeed(
  engine: LocalEngine,
  context: LlamaContext,
  settings: DecodeSettings,
  options: SequenceEvaluateOptions,
): Promise<number> {
  // A sequence is disposed asynchronously.
  while (context.sequencesLeft < settings.sequences) await new Promise((resolve) => setTimeout(resolve, 1));
  const sequences = Array.from({ length: settings.sequences }, () => context.getSequence());
  try {
    const loops = sequences.map((sequence, seed) => {
      const prompt = [...randomTokens(engine, settings.prompt, seed)] as Token[];
      return sequence.evaluateWithMetadata(prompt, { confidence: true }, { ...options, seed });
    });
    const step = async (loop: (typeof loops)[number]) => {
      const { done } = await loop.next();
      if (done) throw new Error("node-llama-cpp ended a sequence on its own");
    };
    await Promise.all(loops.map(step));
    const start = performance.now();
    await Promise.all(
      loops.map(async (loop) => {
        for (let i = 0; i < settings.tokens; i++) await step(loop);
      }),
    );
    const seconds = (performance.now() - start) / 1000;
    await Promise.all(loops.map((loop) => loop.return()));
    return (settings.sequences * settings.tokens) / seconds;
  } finally {
    for (const sequence of sequences) sequence.dispose();
  }
}

export const bench: Bench = {
  name,
  about: "decode speed against node-llama-cpp's own loop with confidence",
  models: ["0.5b"],
  async run(context) {
    const model = context.model ?? modelPath("qwen2-0.5b-shape-f16.gguf");
    const rows: Row[] = [];
    for (const sequences of context.sequences ?? [16]) {
      const engine = await context.load({ model, sequences, contextPerSequence: 512 });
      const theirs = await theirContext(engine, sequences);
      try {
        const settings = { sequences, ...decodeLength(engine) };
        const row = { model: modelName(model), sequences, unit: "tokens/s" } as const;
        const whole = { ...row, name, target: "ratio >= 3", note: "both: temperature 1, no truncation" };
        const some = { ...row, name: `${name}/top-k-40`, target: "", note: "theirs: temperature 1, topK 40" };
        for (const [one, topK] of [[whole, 0] as const, [some, 40] as const]) {
          const before = engine.stats();
          const result = await compare(context, one, "more", {
            ours: () => decodeSpeed(engine, settings),
            theirs: () => theirSpeed(engine, theirs, settings, { temperature: 1, topK, topP: 1, minP: 0 }),
          });
          const { sampling, scheduling } = shares(before, engine.stats());
          const decode = 1 - sampling - scheduling;
          const most = ((result.ratio ?? 0) / decode).toFixed(2);
          const profile = `ours is in llama_decode for ${(100 * decode).toFixed(1)} % of its time: with nothing else to do the ratio would be ${most}`;
          context.log(profile);
          rows.push({ ...result, note: `${one.note}; ${profile}` });
        }
      } finally {
        await theirs.dispose();
        await theirs.model.dispose();
        await engine.close();
      }
    }
    return rows;
  },
};
