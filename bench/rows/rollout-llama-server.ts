/**
 * Whole email rollouts per second against llama-server over HTTP: the same agent, libraries, weights, threads, limits, template,
 * parser and tools, as many slots as concurrent rollouts, prompt cache on, keep-alive connections. Only the engine differs
 * (bench/llama-server/engine.ts). Every round is like a step of training after the first: weights count as new, so both sides
 * start without KV. Log-probabilities, which training needs, slow down the server: other rows omit them on its side.
 *
 * The tiny model plays freely. The 0.5B shape has random weights and follows a script of the task's expert: four turns
 * of a fixed number of tokens, with the tools' real results.
 */
import { resolve } from "node:path";
import type { Engine, LocalEngine } from "../../src/core/engine/engine.js";
import type { Sequence } from "../../src/core/engine/sequence.js";
import { modelFile, trainedContext } from "../../src/engine/models.js";
import { LlamaServerEngine } from "../llama-server/engine.js";
import { type MailSettings, playMail } from "../llama-server/play.js";
import { startServer } from "../llama-server/server.js";
import { buildLlamaTool } from "../llama-tools.js";
import { compare, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import type { Bench, BenchContext, Row } from "../row.js";

const name = "rollout/llama-server";

interface Workload {
  readonly model: string;
  readonly context: number;
  /** Number of concurrent rollouts, and of the server's slots. */
  readonly sequences: number;
  readonly rollouts: number;
  /** The calls are the expert's; else the model plays freely. */
  readonly scripted: boolean;
}

/** One side of the comparison and its results so far. */
class Side {
  readonly #all = { rollouts: 0, turns: 0, tokens: 0 };
  #rounds = 0;

  /** Rollouts per second. Every round has other questions, the same for both sides. */
  async play(engine: Engine, settings: Omit<MailSettings, "step">): Promise<number> {
    const { rollouts, turns, tokens, seconds } = await playMail(engine, { ...settings, step: this.#rounds++ });
    this.#all.rollouts += rollouts;
    this.#all.turns += turns;
    this.#all.tokens += tokens;
    return rollouts / seconds;
  }

  about(): string {
    const { rollouts, turns, tokens } = this.#all;
    const each = (sum: number) => (sum / Math.max(1, rollouts)).toFixed(1);
    return `${each(turns)} turns and ${each(tokens)} written tokens a rollout`;
  }
}

/** Warm-up prompt; triggers one-time initialisation. */
async function warmUp(sequence: Sequence): Promise<void> {
  await sequence.generate({ maxTokens: 4, sampling: { seed: 1 }, stop: [] });
  sequence.close();
}
const WARMING = Int32Array.of(1, 2, 3);

async function compareGroups(
  context: BenchContext,
  engine: LocalEngine,
  work: Workload,
  groupSize: number,
): Promise<Row[]> {
  const { sequences, rollouts, scripted } = work;
  const settings = { groups: rollouts / groupSize, groupSize, concurrency: sequences, scripted };
  const program = await buildLlamaTool("llama-server", context.log);
  const onServer = async <T>(logprobs: boolean, use: (server: Engine) => Promise<T>): Promise<T> => {
    const server = await startServer(program, engine);
    const there = new LlamaServerEngine(server.port, engine, logprobs);
    try {
      return await use(there);
    } finally {
      await there.close();
      await server.stop();
    }
  };
  /** Plays a few rollouts that are not measured. */
  const first = (player: Engine) => playMail(player, { ...settings, groups: 4, groupSize: 1, step: 1000 });
  const rows: Row[] = [];
  for (const logprobs of scripted ? [true] : [true, false]) {
    const ours = new Side();
    const theirs = new Side();
    await first(engine);
    await onServer(logprobs, first);
    const row = await compare(
      context,
      {
        name: `${name}/group-${groupSize}${logprobs ? "" : "/no-logprobs"}`,
        model: modelName(work.model),
        sequences,
        unit: "rollouts/s",
        target: logprobs ? `ratio >= ${scripted ? 1.3 : 1.5}` : "",
      },
      "more",
      {
        ours: async () => {
          await warmUp(engine.open(WARMING));
          // Drops all KV.
          await engine.useAdapter(null);
          return ours.play(engine, settings);
        },
        theirs: () =>
          onServer(logprobs, async (server) => {
            await warmUp(server.open(WARMING));
            return theirs.play(server, settings);
          }),
      },
    );
    const note = `ours: ${ours.about()}; theirs: ${theirs.about()}${logprobs ? "" : ", without log-probabilities"}`;
    context.log(note);
    rows.push({ ...row, note });
  }
  return rows;
}

export const bench: Bench = {
  name,
  about: "whole email rollouts a second against the same agent on llama-server, groups of 4 and 8",
  models: ["0.5b"],
  async run(context) {
    const sequences = context.sequences?.[0];
    const free = async (model: string): Promise<Workload> => {
      const room = Math.min(4096, await trainedContext(model));
      return { model, context: room, sequences: sequences ?? 16, rollouts: 128, scripted: false };
    };
    const shape: Workload = {
      model: modelPath("qwen2-0.5b-shape-f16.gguf"),
      context: 4096,
      sequences: sequences ?? 8,
      rollouts: 16,
      scripted: true,
    };
    const { model } = context;
    const works =
      model === undefined
        ? [await free(modelFile("tiny")), shape]
        : [resolve(model) === shape.model ? shape : await free(model)];
    const rows: Row[] = [];
    for (const work of works) {
      const { model, context: contextPerSequence } = work;
      const engine = await context.load({ model, sequences: work.sequences, contextPerSequence });
      try {
        for (const group of [4, 8]) rows.push(...(await compareGroups(context, engine, work, group)));
      } finally {
        await engine.close();
      }
    }
    return rows;
  },
};
