/**
 * Whole email rollouts a second of agents beside the built-in loop: the same scenarios, seeds, tools and reward. A round
 * is a step of training after the first: its worker threads are there. The tiny model's turns take
 * milliseconds, so that the agent's own code weighs most. It is measured with the engine on all cores, where that code
 * takes time from the engine, and with a core left to it, as an engine on a GPU leaves it. The same model with 100
 * million weights more, which do not change what it writes, has turns as long as those of models that people train.
 */
import { availableParallelism } from "node:os";
import { fileURLToPath } from "node:url";
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { RolloutThreads } from "../../src/core/gather/threads.js";
import { modelFile, trainedContext } from "../../src/engine/models.js";
import { compare, modelName } from "../measure.js";
import { modelPath } from "../models.js";
import { enginePlayer, meansOf, playEmail, played } from "../rollouts.js";
import type { Bench, BenchContext, Row } from "../row.js";

const name = "rollout/agents";

/** Share of the built-in loop's rollouts a second. */
const TARGET = 0.97;

const agents = [
  { agent: "ai-sdk", file: "mail-ai-sdk.js" },
  { agent: "http", file: "mail-http.js" },
];

/** An engine, and the number of scenarios of a step. */
interface Played {
  readonly engine: LocalEngine;
  readonly scenarios: number;
}

/** Rollouts of a side's steps; each call plays the next one. */
class Side {
  /** CPU seconds of this process, engine included: unlike the wall time they hardly depend on other load. */
  cpu = 0;
  readonly notes: string[] = [];
  readonly #threads = new RolloutThreads();
  #step = 0;

  constructor(
    readonly on: Played,
    readonly agent: string,
    readonly task?: string,
  ) {}

  /** Returns rollouts per second. */
  async play(): Promise<number> {
    const { agent, task } = this;
    const { engine, scenarios } = this.on;
    const before = process.cpuUsage();
    const result = await playEmail(enginePlayer(engine), {
      scenarios,
      groupSize: 8,
      concurrency: engine.info.sequences,
      maxTurns: 10,
      maxTokens: 256,
      step: this.#step++,
      onToolError: "stop" as const,
      threads: this.#threads,
      ...(task === undefined ? {} : { task }),
    });
    const { user, system } = process.cpuUsage(before);
    this.cpu += (user + system) / 1e6;
    const { turns, tokens } = meansOf(result);
    const failed = result.failures.length > 0 ? `, ${result.failures.length} failed` : "";
    this.notes.push(`${agent}: ${turns.toFixed(2)} turns, ${tokens.toFixed(1)} tokens${failed}`);
    return played(result) / result.seconds;
  }

  /** Plays a step that is not measured: threads start, and import the agent's packages. */
  async warmUp(): Promise<this> {
    await this.play();
    this.cpu = 0;
    this.notes.length = 0;
    this.#step = 0;
    return this;
  }

  close(): Promise<void> {
    return this.#threads.close();
  }
}

/** @param free whether a core is left to the agents' code */
async function compareOn(context: BenchContext, on: Played, free: boolean): Promise<Row[]> {
  const rows: Row[] = [];
  const { model, sequences, threads } = on.engine.info;
  for (const { agent, file } of agents) {
    const path = fileURLToPath(new URL(`../agents/${file}`, import.meta.url));
    const ours = await new Side(on, agent, path).warmUp();
    const theirs = await new Side(on, "built in").warmUp();
    const about = { model: modelName(model), sequences, threads, unit: "rollouts/s" as const };
    const row = await compare(
      context,
      { name: `${name}/${agent}${free ? "/free-core" : ""}`, ...about, target: `ratio >= ${TARGET}` },
      "more",
      { ours: () => ours.play(), theirs: () => theirs.play() },
    );
    await Promise.all([ours.close(), theirs.close()]);
    const share = `CPU time ${(ours.cpu / theirs.cpu).toFixed(3)} times it`;
    const notes = [...ours.notes, ...theirs.notes].join("; ");
    const note = `${share}; ${notes}`;
    context.log(note);
    rows.push({ ...row, note });
  }
  return rows;
}

export const bench: Bench = {
  name,
  about: "whole email rollouts a second of an agent of the AI SDK and of one over HTTP, beside the built-in loop",
  models: ["wide"],
  async run(context) {
    const cores = availableParallelism();
    const all = context.threads === undefined ? [cores, cores - 1].filter((threads) => threads > 0) : [context.threads];
    const small = context.model ?? modelFile("tiny");
    const works = [
      // Twice the rollouts of a step of training with its default settings.
      ...all.map((threads) => ({ model: small, threads, scenarios: 16 })),
      ...(context.model
        ? []
        : [{ model: modelPath("tiny-wide-f16.gguf"), threads: context.threads ?? cores, scenarios: 4 }]),
    ];
    const rows: Row[] = [];
    for (const { model, threads, scenarios } of works) {
      const contextPerSequence = Math.min(4096, await trainedContext(model));
      const engine = await context.load({
        model,
        sequences: context.sequences?.[0] ?? 16,
        contextPerSequence,
        threads,
      });
      try {
        rows.push(...(await compareOn(context, { engine, scenarios }, threads < cores)));
      } finally {
        await engine.close();
      }
    }
    return rows;
  },
};
