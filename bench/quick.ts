/** `yarn bench --quick`: measures the speed of a model on this machine in under a minute, in a small table. */
import type { LocalEngine } from "../src/core/engine/engine.js";
import { median, modelName, randomTokens } from "./measure.js";
import type { BenchContext } from "./row.js";

/** For all measurements together, without loading. */
const BUDGET_MS = 40_000;
const PROMPT = 256;
const CONTEXT = 1024;

interface Speed {
  readonly sequences: number;
  /** Tokens per second, all sequences together. */
  readonly decode: number;
  readonly prefill: number;
}

/** Evaluates prompts, then samples until the time is over. */
async function speedOf(engine: LocalEngine, sequences: number, milliseconds: number): Promise<Speed> {
  const opened = Array.from({ length: sequences }, (_, seed) => engine.open(randomTokens(engine, PROMPT, seed)));
  try {
    const start = performance.now();
    // On a slow machine the prompts may be cut short; then there is no result.
    const turn = (maxTokens: number, budget: number) => {
      const signal = AbortSignal.timeout(budget);
      return Promise.all(opened.map((one, seed) => one.generate({ maxTokens, sampling: { seed }, stop: [], signal })));
    };
    const before = engine.stats().prefilled;
    await turn(1, milliseconds * 0.6);
    const between = performance.now();
    const prefill = (engine.stats().prefilled - before) / ((between - start) / 1000);
    const results = await turn(CONTEXT - PROMPT - 2, Math.max(1000, milliseconds - (between - start)));
    const seconds = (performance.now() - between) / 1000;
    return { sequences, decode: results.reduce((sum, { tokens }) => sum + tokens.length, 0) / seconds, prefill };
  } finally {
    for (const sequence of opened) sequence.close();
  }
}

export async function quick(context: BenchContext, model: string): Promise<void> {
  const counts = context.sequences ?? [1, 8, 32];
  const speeds: Speed[] = [];
  let shown: LocalEngine["info"] | undefined;
  for (const sequences of counts) {
    const engine = await context.load({ model, sequences, contextPerSequence: CONTEXT });
    try {
      if (context.adapter !== undefined) await engine.useAdapter(context.adapter);
      shown = engine.info;
      context.log(`measuring ${sequences} sequence${sequences === 1 ? "" : "s"}`);
      speeds.push(await speedOf(engine, sequences, BUDGET_MS / counts.length));
    } finally {
      await engine.close();
    }
  }
  if (!shown) return;
  const where = shown.gpu === false ? "CPU" : `${shown.gpu.toUpperCase()}: ${shown.devices.join(", ")}`;
  const adapter = context.adapter === undefined ? "" : ` with ${modelName(context.adapter)}`;
  console.log(`${modelName(model)} (${(shown.parameters / 1e6).toFixed(0)} M, ${shown.weightType})${adapter}`);
  console.log(
    `${where}, ${shown.threads} CPU thread${shown.threads === 1 ? "" : "s"}, llama.cpp ${shown.llamaVersion}\n`,
  );
  console.log("sequences   tokens/s   tokens/s each   prompt tokens/s");
  const cell = (value: number, width: number) => (value >= 100 ? value.toFixed(0) : value.toFixed(1)).padStart(width);
  for (const { sequences, decode, prefill } of speeds) {
    console.log(
      `${String(sequences).padStart(9)}${cell(decode, 11)}${cell(decode / sequences, 16)}${cell(prefill, 18)}`,
    );
  }
  const best = speeds.reduce((a, b) => (b.decode > a.decode ? b : a));
  const typical = median(speeds.map(({ decode }) => decode));
  if (best.decode > typical) console.log(`\nFastest with ${best.sequences} sequences at once.`);
}
