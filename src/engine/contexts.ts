/**
 * How an engine's sequences, CPU threads and passes are divided among llama.cpp's contexts, which are its lanes
 * (native/engine/lanes.h). What is wanted explicitly is obeyed, or refused by the addon, but for threads beyond the cores: there
 * are none.
 */
import { BATCH } from "../core/config/defaults.js";
import type { EngineOptions, Gpu } from "../core/engine/engine.js";
import { decodeThreads } from "./threads.js";

export const UBATCH = 512;
/** Rows of logits of each lane besides those of its running sequences: positions that are scored at once. */
export const SCORE_ROWS = 64;

/**
 * Bytes of a model file up to which every CPU thread gets a lane of its own. Measured on two cores: 8 MB gain 1.3 times
 * the rollouts, with 1 GB nothing. The limit between is a guess: weights that fit into the cache of a core or two.
 */
const SMALL_MODEL = 64 * 2 ** 20;

/** Backend of an engine; false: the CPU. */
export type Backend = Exclude<Gpu, "auto">;

/**
 * Lanes of a card, and the largest model file that has so many by default. In a pass of 0.5B with an adapter a lane's thread builds a
 * graph and launches some 1,300 kernels, about 5 ms in which the card waits unless it computes another lane's pass: 64 agents
 * took 4.2 s with two lanes on an H200, 5.6 to 7.7 s with one (bench/results/cuda-2026-11-26-nvidia-h200.json). Each lane reads the
 * weights for itself, and reading 4 GB takes those 5 ms at 0.8 TB/s.
 */
const CARD = { lanes: 2, modelBytes: 4e9 };

/** Minimum number of sequences per lane: a smaller batch reads the weights for few tokens, and a group shares no prompt. */
const LANE_SEQUENCES = { cpu: 4, card: 16 };

/**
 * CPU threads of each lane where a GPU has all layers, as it always has here (native/engine/model.cc): they look up
 * embeddings, and more than one would have to be woken for it in every pass.
 */
const THREADS_BESIDE_GPU = 1;

/**
 * A lane on a GPU pools its KV where the mask of a token of each sequence over all cells of a full pool has at most this many
 * entries: the CPU fills it in every pass and transfers it (2 bytes each), and every token is compared with the cells of all.
 * Beyond that, a buffer for each sequence should cost less, although prompts then need a pass each. An estimate, not measured.
 */
const POOLED_MASK = 2 ** 20;

/** The number of lanes, limited by the sequences. */
export function lanesFor(lanes: number, sequences: number, gpu: Backend): number {
  const each = gpu === false ? LANE_SEQUENCES.cpu : LANE_SEQUENCES.card;
  return Math.max(1, Math.min(lanes, Math.floor(sequences / each)));
}

/** Default number of lanes. @param threads of a CPU; a card's lanes have a thread each */
export function lanesOf(modelBytes: number, gpu: Backend, threads: number, sequences: number): number {
  if (gpu === false) return modelBytes <= SMALL_MODEL ? lanesFor(threads, sequences, gpu) : 1;
  return gpu === "cuda" && modelBytes <= CARD.modelBytes ? lanesFor(CARD.lanes, sequences, gpu) : 1;
}

/**
 * Whether each lane of an engine on a GPU has one pool of KV: where its mask is small, and a pass has room for prompts
 * besides a row of each sequence.
 */
export function pooledByDefault(
  { sequences, contextPerSequence }: Pick<EngineOptions, "sequences" | "contextPerSequence">,
  lanes = 1,
  ubatch = UBATCH,
): boolean {
  const each = Math.ceil(sequences / lanes);
  return each * each * contextPerSequence <= POOLED_MASK && ubatch >= 2 * each;
}

export interface Contexts {
  readonly lanes: number;
  /** Of all lanes together. */
  readonly threads: number;
  readonly batch: number;
  readonly ubatch: number;
}

type Wanted = Pick<EngineOptions, "sequences"> & {
  readonly [option in "lanes" | "threads" | "batch" | "ubatch"]?: number | undefined;
};

/** CPU threads of all lanes. On a GPU a number of lanes is not limited by cores: their threads mostly wait. */
function threadsOf(wanted: number | undefined, lanes: number, gpu: Backend): number {
  if (gpu === false) return decodeThreads(wanted);
  return wanted === undefined ? lanes * THREADS_BESIDE_GPU : Math.max(decodeThreads(wanted), Math.min(wanted, lanes));
}

export function contextsOf(wanted: Wanted, modelBytes: number, gpu: Backend): Contexts {
  const { sequences, threads: given, batch = BATCH } = wanted;
  const byDefault = () =>
    Math.min(lanesOf(modelBytes, gpu, decodeThreads(given), sequences), given ?? Number.POSITIVE_INFINITY);
  const lanes = wanted.lanes ?? byDefault();
  return { lanes, threads: threadsOf(given, lanes, gpu), batch, ubatch: wanted.ubatch ?? Math.min(batch, UBATCH) };
}
