/**
 * Whole email rollouts per second against the same agent on llama-server over HTTP: the same libraries, weights,
 * threads, limits, template, parser and tools, as many slots as concurrent rollouts, prompt cache on, keep-alive
 * connections. Only the engine differs (src/engine/llama-server.ts). Every round is like a step of training after the first: weights
 * count as new, so both sides start without KV; worker threads are there. Log-probabilities, which training needs, slow down the server: other
 * rows omit them on its side.
 *
 * The tiny model plays freely. The 0.5B shape has random weights and follows a script of the task's expert: four turns
 * of a fixed number of tokens, with the tools' real results.
 */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { type LocalEngine, loadEngine, modelFile, type Sequence, trainedContext } from "../../src/engine/index.js";
import { RolloutThreads } from "../../src/gather/index.js";
import type { PlayerSpec } from "../../src/rollout/index.js";
import { buildLlamaTool } from "../llama-tools.js";
import { compare, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import {
  enginePlayer,
  freePort,
  meansOf,
  playEmail,
  played,
  type RolloutSettings,
  serverOptions,
  serverPlayer,
  startServer,
} from "../rollouts.js";
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
  #rollouts = 0;
  #turns = 0;
  #tokens = 0;
  #failures = 0;
  #rounds = 0;
  readonly #threads = new RolloutThreads();

  /** Rollouts per second. Every round has other questions, the same for both sides. */
  async play(player: PlayerSpec, settings: Omit<RolloutSettings, "step">): Promise<number> {
    const result = await playEmail(player, { ...settings, step: this.#rounds++, threads: this.#threads });
    const { turns, tokens } = meansOf(result);
    const finished = result.groups.flat().length;
    this.#rollouts += finished;
    this.#turns += turns * finished;
    this.#tokens += tokens * finished;
    this.#failures += result.failures.length;
    return played(result) / result.seconds;
  }

  /** Plays a few rollouts that are not measured, for which as many threads start as for any step. */
  async warmUp(player: PlayerSpec, settings: Omit<RolloutSettings, "step">): Promise<void> {
    await playEmail(player, { ...settings, scenarios: 4, groupSize: 1, step: 1000, threads: this.#threads });
  }

  close(): Promise<void> {
    return this.#threads.close();
  }

  about(): string {
    const each = (sum: number) => (sum / Math.max(1, this.#rollouts)).toFixed(1);
    const failures = this.#failures > 0 ? `, ${this.#failures} failed` : "";
    return `${each(this.#turns)} turns and ${each(this.#tokens)} written tokens a rollout${failures}`;
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
  const settings = {
    ...{ scenarios: rollouts / groupSize, groupSize, concurrency: sequences, maxTurns: 10, maxTokens: 256 },
    ...(scripted ? { task: fileURLToPath(new URL("../agents/mail-scripted.js", import.meta.url)) } : {}),
  };
  const program = await buildLlamaTool("llama-server", context.log);
  const port = await freePort();
  const onServer = async <T>(use: () => Promise<T>): Promise<T> => {
    const server = await startServer(program, engine, port);
    try {
      return await use();
    } finally {
      await server.stop();
    }
  };
  const rows: Row[] = [];
  for (const logprobs of scripted ? [true] : [true, false]) {
    const ours = new Side();
    const theirs = new Side();
    const player = serverPlayer(engine, port, logprobs);
    await ours.warmUp(enginePlayer(engine), settings);
    await onServer(() => theirs.warmUp(player, settings));
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
          return ours.play(enginePlayer(engine), settings);
        },
        theirs: () =>
          onServer(async () => {
            const server = await loadEngine(serverOptions(engine, port, logprobs));
            await warmUp(server.open(WARMING));
            await server.close();
            return theirs.play(player, settings);
          }),
      },
    );
    await Promise.all([ours.close(), theirs.close()]);
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
