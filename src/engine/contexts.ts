/**
 * How an engine's sequences, CPU threads and passes are divided among llama.cpp's contexts, which are its lanes
 * (native/engine/lanes.h). What is asked for explicitly is obeyed or refused, but
 * for threads beyond the cores: there are none.
 */
import { BATCH } from "../config/index.js";
import { HoneError, UsageError } from "../util/index.js";
import type { EngineOptions } from "./engine.js";
import { decodeThreads } from "./threads.js";

export const UBATCH = 512;
/** Rows of logits of each lane besides those of its running sequences: positions that are scored at once. */
export const SCORE_ROWS = 64;

/**
 * Bytes of a model file up to which every CPU thread gets a lane of its own. Measured on two cores: 8 MB gain 1.3 times
 * the rollouts, with 1 GB nothing. The limit between is a guess: weights that fit into the cache of a core or two.
 */
const SMALL_MODEL = 64 * 2 ** 20;

/** Minimum number of sequences per lane: a smaller batch reads the weights for few tokens, and a group shares no prompt. */
const LANE_SEQUENCES = 4;

/**
 * CPU threads of each lane where a GPU has all layers, as it always has here (native/engine/model.cc): they look up
 * embeddings, and more than one would have to be woken for it in every pass. Not run on CUDA.
 */
const THREADS_BESIDE_GPU = 1;

/**
 * A lane on a GPU pools its KV where the mask of a token of each sequence over all cells of a full pool has at most this many
 * entries: the CPU fills it in every pass and transfers it (2 bytes each), and every token is compared with the cells of all.
 * Beyond that, a buffer for each sequence should cost less, although prompts then need a pass each. An estimate, not measured.
 */
const POOLED_MASK = 2 ** 20;

/** The number of lanes, limited by the sequences. */
export function lanesFor(lanes: number, sequences: number): number {
  return Math.max(1, Math.min(lanes, Math.floor(sequences / LANE_SEQUENCES)));
}

/** Default number of lanes. */
export function lanesOf(modelBytes: number, useGpu: boolean, threads: number, sequences: number): number {
  return !useGpu && modelBytes <= SMALL_MODEL ? lanesFor(threads, sequences) : 1;
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

export function whole(name: string, value: number): number {
  if (!Number.isInteger(value) || value < 1)
    throw new HoneError(`${name} is ${value}; it must be a whole number, at least 1`);
  return value;
}

export interface Contexts {
  readonly lanes: number;
  /** Of all lanes together. */
  readonly threads: number;
  readonly batch: number;
  readonly ubatch: number;
}

type Asked = Pick<EngineOptions, "sequences"> & {
  readonly [option in "lanes" | "threads" | "batch" | "ubatch"]?: number | undefined;
};

/** CPU threads of all lanes. On a GPU a number of lanes is not limited by cores: their threads mostly wait. */
function threadsOf({ threads, lanes = 1 }: Asked, useGpu: boolean): number {
  const asked = threads === undefined ? undefined : whole("threads", threads);
  if (!useGpu) return decodeThreads(asked);
  return asked === undefined ? lanes * THREADS_BESIDE_GPU : Math.max(decodeThreads(asked), Math.min(asked, lanes));
}

/**
 * @throws UsageError for more lanes than there are sequences or threads, and for passes longer than a batch; HoneError
 * for other numbers
 */
export function contextsOf(asked: Asked, modelBytes: number, useGpu: boolean): Contexts {
  const sequences = whole("sequences", asked.sequences);
  const lanes = asked.lanes === undefined ? undefined : whole("lanes", asked.lanes);
  const threads = threadsOf(asked, useGpu);
  if (lanes !== undefined && lanes > sequences) {
    throw new UsageError(
      `--lanes ${lanes}: each lane needs a sequence, and ${sequences} ${sequences === 1 ? "is" : "are"} evaluated at once (--concurrency); give at most ${sequences}`,
    );
  }
  if (lanes !== undefined && lanes > threads) {
    throw new UsageError(
      `--lanes ${lanes}: each lane needs a CPU thread, and the engine has ${threads} (--threads); give at most ${threads}`,
    );
  }
  const batch = whole("batch", asked.batch ?? BATCH);
  const ubatch = asked.ubatch === undefined ? Math.min(batch, UBATCH) : whole("ubatch", asked.ubatch);
  if (ubatch > batch) {
    throw new UsageError(`--ubatch ${ubatch}: a pass evaluates a batch or a part of it, ${batch} tokens at most`);
  }
  return { lanes: lanes ?? lanesOf(modelBytes, useGpu, threads, sequences), threads, batch, ubatch };
}
