/** Sections that measure tokens/s by the number of sequences, by both decoders by turns, beside llama-batched-bench. */
import type { LocalEngine } from "../../src/core/engine/engine.js";
import { HoneError, messageOf } from "../../src/core/util/errors.js";
import type { LlamaEngine } from "../../src/engine/native.js";
import { batchedBench } from "../batched-bench.js";
import { type Agents, agents, PROMPT, playAgents, TOKENS } from "../card/traffic.js";
import { buildLlamaTool } from "../llama-tools.js";
import { decodeSpeed, modelName, randomTokens } from "../measure.js";
import { benchContext, type CheckContext, type Section } from "./context.js";
import { type Shape, shapedModel } from "./shapes.js";

export interface SpeedRow {
  readonly traffic: "decode" | "agents";
  readonly sequences: number;
  readonly context: number;
  /** Asked for, and the one that played. */
  readonly decoder: "llama" | "own";
  played?: "llama" | "own";
  lanes?: number;
  /** Tokens/s, of each turn. */
  readonly withoutAdapter: number[];
  readonly withAdapter: number[];
  /** What the engine said when it was loaded: why another decoder plays, or the host samples. */
  notes?: readonly string[];
  /** Why it did not play to the end. */
  problem?: string;
}

/** Llama first, then own first: what came before warms caches. */
const TURNS = [
  ["llama", "own"],
  ["own", "llama"],
] as const;

interface Traffic {
  readonly name: SpeedRow["traffic"];
  readonly context: number;
  play(engine: LocalEngine): Promise<number>;
}

/** Tokens that were sampled a second, prompts and results included in the time. */
async function agentsSpeed(engine: LocalEngine, played: Agents): Promise<number> {
  const started = performance.now();
  const sampled = await playAgents(engine, played, (length, seed) => randomTokens(engine, length, seed));
  return sampled / ((performance.now() - started) / 1000);
}

/** Of `yarn bench:card`; a rehearsal has two sequences of few tokens. */
function trafficOf(sequences: number, small: boolean): Traffic[] {
  const length = small ? { prompt: 16, tokens: 8 } : { prompt: PROMPT, tokens: TOKENS };
  const turns = [
    { appended: 0, sampled: 4 },
    { appended: 5, sampled: 4 },
  ];
  const played = small
    ? { groups: 2, size: 2, prompt: 16, rollouts: Array.from({ length: 4 }, () => turns) }
    : agents(Math.max(sequences, Math.min(2 * sequences, 256)), sequences);
  return [
    {
      name: "decode",
      context: small ? 128 : 1024,
      play: (engine) => decodeSpeed(engine, { sequences, ...length }),
    },
    { name: "agents", context: small ? 128 : 8192, play: (engine) => agentsSpeed(engine, played) },
  ];
}

/** @param counts of sequences */
export function speed(shape: Shape, counts: readonly number[], name: string): Section {
  return {
    name,
    about: `tokens/s of the ${shape} shape, ${counts.join(", ")} at once, by both decoders by turns, decoding and as agents`,
    run: (context) => measure(context, shape, counts),
  };
}

/** What one of them cannot do costs its own figures alone. */
async function measure(context: CheckContext, shape: Shape, counts: readonly number[]): Promise<void> {
  const { gpu, small, log, save } = context;
  // The tiny model's heads are smaller than those that CUDA's attention takes, without which hone's own graph does not play.
  const { model, adapter } = await shapedModel(context.standIn ? "card" : small ? "tiny" : shape, log);
  let notes: string[] = [];
  const hear = (line: string) => {
    notes.push(line);
    log(line);
  };
  const bench = benchContext({ log: hear }, gpu, 1);
  const rows: SpeedRow[] = [];
  const theirs: Record<number, number> = {};
  const problems: string[] = [];
  let device: LocalEngine["info"]["compute"] | undefined;
  const publish = () => save({ model: modelName(model), device, rows, llamaBatchedBench: theirs });
  const inTurn = async (row: SpeedRow, { play }: Traffic) => {
    const { sequences, context: contextPerSequence, decoder } = row;
    notes = [];
    const engine = await bench.load({ model, sequences, contextPerSequence, decoder });
    try {
      device ??= engine.info.compute;
      row.played = (engine as LlamaEngine).decoder;
      row.lanes = engine.info.lanes;
      if (notes.length > 0) row.notes = notes;
      for (const [file, speeds] of [[null, row.withoutAdapter] as const, [adapter, row.withAdapter] as const]) {
        await engine.useAdapter(file);
        // Graphs are captured before anything counts.
        await decodeSpeed(engine, { sequences, prompt: 16, tokens: 4 });
        speeds.push(await play(engine));
      }
      if (row.traffic === "decode" && theirs[sequences] === undefined) {
        try {
          const tool = await buildLlamaTool("llama-batched-bench", log);
          const length = small ? { prompt: 16, tokens: 8 } : { prompt: PROMPT, tokens: 2 * TOKENS };
          theirs[sequences] = await batchedBench(tool, engine, { sequences, ...length });
        } catch (error) {
          problems.push(messageOf(error));
        }
      }
    } finally {
      await engine.close();
    }
  };
  for (const sequences of small ? [2] : counts) {
    for (const traffic of trafficOf(sequences, small)) {
      const both = (["llama", "own"] as const).map((decoder): SpeedRow => {
        const { name, context } = traffic;
        return { traffic: name, sequences, context, decoder, withoutAdapter: [], withAdapter: [] };
      });
      rows.push(...both);
      for (const decoder of TURNS.flat()) {
        const row = both.find((one) => one.decoder === decoder) as SpeedRow;
        if (row.problem !== undefined) continue;
        try {
          await inTurn(row, traffic);
        } catch (error) {
          row.problem = messageOf(error);
          problems.push(`${traffic.name} ${sequences} by ${decoder}: ${row.problem}`);
        }
        publish();
      }
      for (const { decoder, withoutAdapter, withAdapter } of both) {
        const told = [withoutAdapter, withAdapter].map((speeds) => speeds.map((one) => one.toFixed(0)).join(", "));
        log(`${traffic.name} ${sequences} by ${decoder}: ${told.join("; with an adapter ")} tokens/s`);
      }
    }
  }
  if (problems[0] !== undefined) throw new HoneError(problems[0]);
}
