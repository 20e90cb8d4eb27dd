/**
 * The section `contexts`: what an engine on a card gains by lanes, longer passes, drawing on the device, more CPU threads,
 * and what its pool of KV gains. Each is measured beside an engine with default settings on the same weights, by turns.
 */

import type { LocalEngine, LocalEngineOptions } from "../../src/core/engine/engine.js";
import { modelShape } from "../../src/engine/models.js";
import { decodeThreads } from "../../src/engine/threads.js";
import { contextsMemory } from "../../src/machine/plan/engine-memory.js";
import { compare, type DecodeSettings, decodeSpeed, modelName, promptSpeed } from "../measure.js";
import type { Row } from "../row.js";
import { benchContext, type CheckContext, type Section } from "./context.js";
import { shapedModel } from "./shapes.js";

type Settings = Pick<LocalEngineOptions, "lanes" | "ubatch" | "sampling" | "threads" | "pooledKv">;
type Measured = "decode" | "prompts";

interface Way {
  readonly name: string;
  readonly settings: Settings;
  readonly measured: readonly Measured[];
}

const LONG = 2048;

/** Beside the defaults for {@link LENGTH}'s sequences: on CUDA two lanes with a thread each, passes of 512, drawing on the device. */
const ways = (lanes: number): Way[] => [
  { name: "lanes 1", settings: { lanes: 1 }, measured: ["decode", "prompts"] },
  { name: `lanes ${lanes}`, settings: { lanes }, measured: ["decode", "prompts"] },
  { name: `ubatch ${LONG}`, settings: { ubatch: LONG }, measured: ["decode", "prompts"] },
  { name: "sampling host", settings: { sampling: "host" }, measured: ["decode"] },
  { name: `lanes ${lanes}, ubatch ${LONG}`, settings: { lanes, ubatch: LONG }, measured: ["decode", "prompts"] },
  { name: "threads as on a CPU", settings: { threads: decodeThreads(undefined) }, measured: ["decode", "prompts"] },
  { name: "separate KV", settings: { pooledKv: false }, measured: ["decode", "prompts"] },
];

const CONTEXT = 512;
const LENGTH: Record<Measured, DecodeSettings> = {
  decode: { sequences: 64, prompt: 128, tokens: 128 },
  prompts: { sequences: 64, prompt: 448, tokens: 1 },
};
/** llvmpipe compiles kernels for each number of rows. */
const SHORT: Record<Measured, DecodeSettings> = {
  decode: { sequences: 2, prompt: 20, tokens: 8 },
  prompts: { sequences: 2, prompt: 100, tokens: 1 },
};
const ROUNDS = 4;

const speeds = { decode: decodeSpeed, prompts: promptSpeed };

/** Bytes as planned and as llama.cpp reported them; null where the plan does not know such an engine. */
async function memoryOf(engine: LocalEngine, { pooledKv }: Settings, gpu: CheckContext["gpu"]) {
  const { sequences: concurrency, contextPerSequence: context, lanes, ubatch, compute, model } = engine.info;
  const { buffers, kv } = engine.memory();
  const reported = { kv, compute: buffers.reduce((sum, buffer) => sum + buffer.compute, 0) };
  if (pooledKv === false) return { planned: null, reported };
  const { sampling } = compute;
  const shape = await modelShape(model);
  const plan = contextsMemory({ shape, concurrency, context, lanes, ubatch, sampling, gpu });
  // The masks and embeddings of a pass are on the host too.
  return { planned: { kv: plan.kv, compute: plan.compute + plan.mask + plan.inputs }, reported };
}

export const contexts: Section = {
  name: "contexts",
  about: "lanes, longer passes, drawing on the device, CPU threads and separate KV, each beside the defaults",
  async run(check) {
    const { gpu, small, log, save } = check;
    const { model } = await shapedModel(small ? "tiny" : "0.5b", log);
    const bench = benchContext(check, gpu, small ? 1 : ROUNDS);
    const length = small ? SHORT : LENGTH;
    const { sequences } = length.decode;
    const load = (name: string, settings: Settings) =>
      bench.load({ model, name, sequences, contextPerSequence: CONTEXT, ...settings });
    const results: object[] = [];
    const plain = await load("", {});
    const memory = await memoryOf(plain, {}, gpu);
    const publish = () =>
      save({ model: modelName(model), device: plain.info.compute, defaults: { memory }, ways: results });
    try {
      for (const { name, settings, measured } of ways(Math.min(4, sequences))) {
        const other = await load(name, settings);
        try {
          const rows: Row[] = [];
          const { lanes, ubatch, threads, compute } = other.info;
          const about = { name, lanes, ubatch, threads, sampling: compute.sampling };
          results.push({ ...about, memory: await memoryOf(other, settings, gpu), rows });
          for (const what of measured) {
            const speed = (engine: LocalEngine) => speeds[what](engine, length[what]);
            // Kernels are compiled and graphs built before anything counts.
            for (const engine of [plain, other]) await speed(engine);
            const row = {
              name: `${name}: ${what}`,
              model: modelName(model),
              sequences,
              unit: "tokens/s",
              target: "",
            } as const;
            rows.push(await compare(bench, row, "more", { ours: () => speed(other), theirs: () => speed(plain) }));
            publish();
          }
        } finally {
          await other.close();
        }
      }
    } finally {
      await plain.close();
    }
  },
};
