/** An engine on a card that computes nothing, in a process of its own: what is played on it, and its row of the results. */
import { join } from "node:path";
import { HoneError } from "../../src/core/util/errors.js";
import { type ModelHeader, modelHeader } from "../../src/engine/models.js";
import { Machine, root } from "../../test/null-card/support.js";
import { modelPath } from "../models.js";
import type { Done, Wanted } from "./engine.js";
import {
  type About,
  bandwidthOf,
  constants,
  type Estimate,
  estimate,
  fits,
  type Profile,
  profileNames,
} from "./estimate.js";
import { type Figure, figuresOf } from "./goals.js";
import { agents, type Decoder, ideal as idealOf, TOKENS } from "./traffic.js";

export const shapes = ["0.5b", "1.5b", "7b"] as const;
export const types = ["bf16", "f16"] as const;
export const sizes = [1, 8, 64, 256] as const;

/** One engine: its rows are a line each of the results. */
export interface Case {
  readonly shape: (typeof shapes)[number];
  readonly type: (typeof types)[number];
  readonly traffic: "decode" | "agents";
  readonly sequences: number;
  readonly context: number;
  readonly rollouts: number;
  readonly decoder: Decoder;
  /** As of {@link Wanted}. */
  readonly pooledKv?: boolean;
}

export interface Row extends Case, Done {
  readonly ideal: number;
  readonly figures: Readonly<Record<string, Figure>>;
  readonly estimates: readonly Estimate[];
}

/** Agents with a context of 8,192 tokens: twice as many rollouts as sequences at once, or 256 of 256. */
const AGENTS: readonly Omit<Case, "shape" | "type" | "traffic" | "context" | "decoder">[] = [
  { sequences: 8, rollouts: 16 },
  { sequences: 64, rollouts: 128 },
  { sequences: 256, rollouts: 256 },
  // What the engine did not choose there, with llama.cpp's graph.
  { sequences: 8, rollouts: 16, pooledKv: false },
  { sequences: 64, rollouts: 128, pooledKv: true },
];

export interface Choice {
  readonly shapes: readonly Case["shape"][];
  readonly types: readonly Case["type"][];
  readonly traffic: readonly Case["traffic"][];
  readonly sequences: readonly number[];
  readonly decoders: readonly Decoder[];
}

/** Agents are played with bf16 alone, and with the larger models at 64. */
export function casesOf({ shapes, types, traffic, sequences, decoders }: Choice): Case[] {
  const decode = sequences.map((count) => ({ sequences: count, context: 1024, rollouts: count }));
  const played = (shape: Case["shape"], type: Case["type"]) =>
    AGENTS.filter((one) => sequences.some((count) => count === one.sequences))
      .filter((one) => type === "bf16" && (shape === "0.5b" || (one.sequences === 64 && one.pooledKv === undefined)))
      .map((one) => ({ ...one, context: 8192 }));
  const cases = shapes.flatMap((shape) =>
    types.flatMap((type) => [
      ...(traffic.includes("decode") ? decode.map((one) => ({ shape, type, traffic: "decode" as const, ...one })) : []),
      ...(traffic.includes("agents")
        ? played(shape, type).map((one) => ({ shape, type, traffic: "agents" as const, ...one }))
        : []),
    ]),
  );
  return decoders.flatMap((decoder) =>
    cases
      .map((one): Case => ({ ...one, decoder }))
      .filter(({ pooledKv }) => decoder === "llama" || pooledKv === undefined),
  );
}

/** Of the adapters of test/models/card.py. */
const RANK = 8;

/** Numbers in the matrices that every row is multiplied by: those of the layers, and the output layer's. */
export function numbersOf(header: ModelHeader): number {
  const { embedding, feedForward, heads, kvHeads, headSize, layers, vocabulary } = header;
  const attention = embedding * headSize * (2 * heads + 2 * kvHeads);
  return layers * (attention + 3 * embedding * feedForward) + embedding * vocabulary;
}

/** Numbers of an adapter of rank r: r for each input and each output of every matrix of a layer. */
function adapterNumbers(
  { embedding, feedForward, heads, kvHeads, headSize, layers }: ModelHeader,
  rank: number,
): number {
  const attention = 4 * embedding + 2 * headSize * (heads + kvHeads);
  return rank * layers * (attention + 3 * (embedding + feedForward));
}

/** @param files of the model and an adapter; without them those of the case's shape and type, which have no weights */
export async function run(
  one: Case,
  card: Profile,
  {
    model = modelPath(`card-${one.shape}-${one.type}.gguf`),
    adapter = modelPath(`card-${one.shape}-adapter-r${RANK}.gguf`),
  }: { readonly model?: string; readonly adapter?: string } = {},
): Promise<Row> {
  const header = await modelHeader(model);
  // In a card's time the host answers turns that have ended; in none it would be late for a pass.
  const env = {
    NULLCUDA_NO_DATA: "1",
    NULLCUDA_KERNEL_NS: String(constants.inGraph * 1e9),
    NULLCUDA_BYTES_PER_NS: String(bandwidthOf(card) / 1e9),
  };
  const machine = new Machine([card], { env });
  try {
    const { shape: _, type, ...asked } = one;
    const wanted: Wanted = { model, adapter, layers: header.layers, ...asked };
    const engine = join(root, "dist/bench/card/engine.js");
    const { code, stdout, stderr } = await machine.run(process.execPath, [engine, JSON.stringify(wanted)]);
    const last = stdout.trim().split("\n").at(-1);
    if (code !== 0 || !last) throw new HoneError(`an engine ended with code ${code}: ${stderr.trim().slice(-600)}`);
    const done = JSON.parse(last) as Done;
    const numbers = numbersOf(header);
    const ideal =
      one.traffic === "agents"
        ? idealOf(agents(one.rollouts, one.sequences), one.sequences, done.ubatch).passes
        : TOKENS;
    const bytes = { weights: 2 * numbers, adapter: 4 * adapterNumbers(header, RANK) };
    const cellBytes = 2 * 2 * header.layers * header.kvHeads * header.headSize;
    const about: About = {
      numbers,
      cellBytes,
      exact: type === "f16",
      attention: 4 * header.layers * header.heads * header.headSize,
    };
    const estimates = profileNames
      .filter((profile) => fits(profile, done.adapter))
      .map((profile) => estimate(profile, done.adapter, about));
    return {
      ...one,
      ...done,
      ideal,
      figures: figuresOf({ ...one, ...bytes, ideal, layers: header.layers }, done),
      estimates,
    };
  } finally {
    machine.remove();
  }
}
