/**
 * One engine on a card that computes nothing: node engine.js '{"model":FILE,"adapter":FILE,"layers":N,"traffic":"decode","sequences":N,
 * "context":N,"rollouts":N,"decoder":"llama","pooledKv":true}'. Prints a line of JSON: how it was set up, and its counts without an adapter
 * and with one. Tokens are drawn on the card, and hone's own graph plays, without the trials, which a card fails that computes nothing.
 */

import type { LocalEngine } from "../../src/core/engine/engine.js";
import { pooledByDefault } from "../../src/engine/contexts.js";
import { lookForCuda, takeDevice } from "../../src/engine/device/device.js";
import { loadEngine } from "../../src/engine/factory.js";
import type { LlamaEngine } from "../../src/engine/native.js";
import { type Counts, countsOf } from "./counts.js";
import { agents, type Decoder, numbers, PROMPT, playAgents, TOKENS } from "./traffic.js";

export interface Wanted {
  readonly model: string;
  readonly adapter: string;
  readonly layers: number;
  /** decode: every sequence samples {@link TOKENS} after a prompt of {@link PROMPT}, all at once. agents: {@link agents}. */
  readonly traffic: "decode" | "agents";
  readonly sequences: number;
  readonly context: number;
  readonly rollouts: number;
  readonly decoder: Decoder;
  /** Whether a lane has one pool of KV; as the engine chooses where it is missing. */
  readonly pooledKv?: boolean;
}

export interface Done {
  readonly pooled: boolean;
  readonly sampling: string;
  readonly weights: string;
  readonly ubatch: number;
  readonly plain: Counts | null;
  readonly adapter: Counts;
}

const next = numbers(12_345);
const tokens = ({ info }: LocalEngine, length: number) =>
  Int32Array.from({ length }, () => next(100, Math.min(100_000, info.vocabularySize - 1)));

/** All sequences are evaluated up to their prompt's end before their tokens are counted. */
async function decode(engine: LocalEngine, wanted: Wanted): Promise<Counts> {
  const open = Array.from({ length: wanted.sequences }, () => engine.open(tokens(engine, PROMPT)));
  const turn = (maxTokens: number) =>
    Promise.all(open.map((one, seed) => one.generate({ maxTokens, sampling: { seed }, stop: [] })));
  await turn(2);
  const counts = await countsOf(engine, wanted.layers, () => turn(TOKENS));
  for (const one of open) one.close();
  return counts;
}

function play(engine: LocalEngine, { layers, rollouts, sequences }: Wanted): Promise<Counts> {
  const played = agents(rollouts, sequences);
  return countsOf(engine, layers, () => playAgents(engine, played, (length) => tokens(engine, length)));
}

async function main(): Promise<void> {
  const wanted = JSON.parse(process.argv[2] ?? "{}") as Wanted;
  takeDevice({ gpu: "cuda" });
  lookForCuda();
  const engine = await loadEngine({
    model: wanted.model,
    gpu: "cuda",
    sequences: wanted.sequences,
    contextPerSequence: wanted.context,
    // Two lanes divide passes, whose number is counted.
    lanes: 1,
    untried: true,
    decoder: wanted.decoder,
    ...(wanted.pooledKv === undefined ? {} : { pooledKv: wanted.pooledKv }),
  });
  if ((engine as LlamaEngine).decoder !== wanted.decoder) throw new Error("llama.cpp plays, and not hone's own graph");
  const work = wanted.traffic === "decode" ? decode : play;
  const plain = wanted.traffic === "decode" ? await work(engine, wanted) : null;
  await engine.useAdapter(wanted.adapter);
  const adapter = await work(engine, wanted);
  const { compute, ubatch, lanes, sequences, contextPerSequence } = engine.info;
  const done: Done = {
    pooled:
      wanted.decoder === "llama" &&
      (wanted.pooledKv ?? pooledByDefault({ sequences, contextPerSequence }, lanes, ubatch)),
    sampling: compute.sampling,
    weights: compute.weights,
    ubatch,
    plain,
    adapter,
  };
  await engine.close();
  console.log(JSON.stringify(done));
}

await main();
