/**
 * What llama.cpp's rules leave of a goal: the best value that this traffic could have, and the rule of its source by which no
 * scheduler reaches more. Beside each goal that is missed.
 */
import type { Counts } from "./counts.js";
import { agents, ideal, promptPasses } from "./traffic.js";

export interface Ceiling {
  readonly best: number;
  readonly rule: string;
}

export interface Played {
  readonly traffic: "decode" | "agents";
  readonly sequences: number;
  readonly rollouts: number;
  readonly pooled: boolean;
  readonly layers: number;
  readonly ubatch: number;
}

const SPLIT =
  "with a buffer of KV for each sequence a pass has neighbours with equally many tokens (llama_batch_allocr::split_equal): each " +
  "tool's result and each piece of a prompt is a pass";
const REPLAY =
  "a pass is replayed where nodes, shapes and addresses are those of the one before (ggml_cuda_graph_update_required): a pass of a " +
  "prompt never is";
const COPY =
  "llama_kv_cache::update copies keys and values of each layer apart, and waits after each (ggml_backend_tensor_copy): two waits a " +
  "layer for each fork, beside 16 of a pass (two for each of seven inputs, one for the embeddings, one for reading)";
const POOL =
  "in one pool each row goes through the cells of all that is in it (llama_kv_cache::get_n_kv), and is masked";

/** Waits of a pass of tokens: see {@link COPY}. */
const WAITS = 16;

export type Limited = "replayedOfAllPasses" | "synchronisationsPerPass" | "attendedOverOwnedCells" | "passesOverIdeal";

/** @param counts as played: a group's members that fork, and passes of prompts alone */
export function ceilingsOf(played: Played, counts: Counts): Partial<Record<Limited, Ceiling>> {
  const { traffic, sequences, rollouts, pooled, layers, ubatch } = played;
  if (traffic === "decode") {
    // Prompts that have nothing in common, all of one length.
    return pooled ? { attendedOverOwnedCells: { best: sequences, rule: POOL } } : {};
  }
  const all = agents(rollouts, sequences);
  const mixed = ideal(all, sequences, ubatch);
  if (pooled) return { attendedOverOwnedCells: { best: mixed.pooledCells / mixed.ownedCells, rule: POOL } };
  const prompts = promptPasses(all, ubatch);
  const passes = prompts + ideal(all, sequences, Number.POSITIVE_INFINITY).passes;
  return {
    passesOverIdeal: { best: passes / mixed.passes, rule: SPLIT },
    replayedOfAllPasses: { best: (counts.passes - counts.promptPasses) / counts.passes, rule: `${SPLIT}; ${REPLAY}` },
    synchronisationsPerPass: { best: WAITS + (2 * layers * counts.forks) / counts.passes, rule: COPY },
  };
}
