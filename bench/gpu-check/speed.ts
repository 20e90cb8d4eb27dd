/** Sections that measure tokens/s by the number of sequences, beside llama-batched-bench. */
import { HoneError, messageOf } from "../../src/core/util/errors.js";
import { batchedBench } from "../batched-bench.js";
import { buildLlamaTool } from "../llama-tools.js";
import { decodeSpeed, modelName } from "../measure.js";
import { benchContext, type CheckContext, type Section } from "./context.js";
import { type Shape, shapedModel } from "./shapes.js";

/** As many tokens as each sequence samples in the measured time. */
const LENGTH = { prompt: 256, tokens: 128 };
const SHORT = { prompt: 16, tokens: 8 };

export interface SpeedRow {
  readonly sequences: number;
  readonly without_adapter: number;
  readonly with_adapter: number;
  llama_batched_bench?: number;
  /** Of the speed without an adapter to llama-batched-bench's. */
  ratio?: number;
}

/** @param counts of sequences */
export function speed(shape: Shape, counts: readonly number[] = [1, 8, 32, 64, 256], name = `speed-${shape}`): Section {
  return {
    name,
    about: `tokens/s of the ${shape} shape by sequences, without and with an adapter, beside llama-batched-bench`,
    run: (context) => measure(context, shape, counts),
  };
}

/** What llama-batched-bench cannot do costs its own figures alone. */
async function measure(context: CheckContext, shape: Shape, counts: readonly number[]): Promise<void> {
  const { gpu, small, log, save } = context;
  const { model, adapter } = await shapedModel(small ? "tiny" : shape, log);
  const rows: SpeedRow[] = [];
  let failed: string | undefined;
  for (const sequences of small ? [1, 2] : counts) {
    const engine = await benchContext(context, gpu, 1).load({ model, sequences, contextPerSequence: 512 });
    try {
      const settings = { sequences, ...(small ? SHORT : LENGTH) };
      await decodeSpeed(engine, { ...settings, tokens: 4 });
      const bare = await decodeSpeed(engine, settings);
      await engine.useAdapter(adapter);
      await decodeSpeed(engine, { ...settings, tokens: 4 });
      const adapted = await decodeSpeed(engine, settings);
      await engine.useAdapter(null);
      const row: SpeedRow = { sequences, without_adapter: bare, with_adapter: adapted };
      rows.push(row);
      const results = { model: modelName(model), device: engine.info.compute, rows };
      save(results);
      log(`${shape} × ${sequences}: ${bare.toFixed(0)} tokens/s, with an adapter ${adapted.toFixed(0)}`);
      try {
        const tool = await buildLlamaTool("llama-batched-bench", log);
        const theirs = await batchedBench(tool, engine, settings);
        Object.assign(row, { llama_batched_bench: theirs, ratio: bare / theirs });
        save(results);
      } catch (error) {
        failed ??= messageOf(error);
      }
    } finally {
      await engine.close();
    }
  }
  if (failed !== undefined) throw new HoneError(failed);
}
