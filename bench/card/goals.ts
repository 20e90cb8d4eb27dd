/**
 * Figures of a traffic from its counts, each with its goal. Those of hone's own graph are what it was made for; llama.cpp's graph has
 * what its rules allow.
 */
import { ceilingsOf } from "./ceilings.js";
import type { Counts } from "./counts.js";
import type { Done } from "./engine.js";
import type { Decoder } from "./traffic.js";

export interface Figure {
  readonly value: number;
  readonly goal?: string;
  readonly reached?: boolean;
  /** Where it is not reached: the best that llama.cpp's rules leave of it, and the rule. */
  readonly best?: number;
  readonly rule?: string;
}

const rounded = (value: number) => Number(value.toPrecision(4));
const atMost = (value: number, most: number): Figure => ({
  value: rounded(value),
  goal: `at most ${most}`,
  reached: value <= most,
});
const atLeast = (value: number, least: number): Figure => ({
  value: rounded(value),
  goal: `at least ${least}`,
  reached: value >= least,
});
const told = (value: number): Figure => ({ value: rounded(value) });
const upTo = (value: number, most: number | undefined) => (most === undefined ? told(value) : atMost(value, most));

interface Goals {
  /** Of passes that are replayed: without those of prompts, and in agents' traffic of all. */
  readonly replayedWithoutPrompts: number;
  readonly replayedOfAll: number;
  /** Of a pass, at most. */
  readonly waits: number;
  readonly copies?: number;
  /** Bytes to the host, for each token. hone's own graph also copies what it drew after rows that are not read. */
  readonly bytes?: number;
  /** Kernels with an adapter, by those without. */
  readonly kernels?: number;
  readonly passes: number;
  /** Sequences up to which passes have their goal. */
  readonly sequences: number;
}
const GOALS: Readonly<Record<Decoder, Goals>> = {
  llama: { replayedWithoutPrompts: 0.9, replayedOfAll: 0.6, waits: 16, bytes: 16, passes: 1.1, sequences: 64 },
  own: {
    replayedWithoutPrompts: 0.95,
    replayedOfAll: 0.95,
    waits: 2,
    copies: 3,
    kernels: 1.25,
    passes: 1.2,
    sequences: 256,
  },
};

export interface Setting {
  readonly decoder: Decoder;
  readonly traffic: "decode" | "agents";
  readonly type: "bf16" | "f16";
  readonly sequences: number;
  readonly rollouts: number;
  /** Of the model. */
  readonly layers: number;
  /** Bytes of the matrices that every row is multiplied by, and of the adapter. */
  readonly weights: number;
  readonly adapter: number;
  /** Passes without padding, shapes and buffers of KV ({@link ideal}). */
  readonly ideal: number;
}

/** Passes that were replayed: a graph was launched, and not captured for it. */
const replayed = ({ graphLaunches, graphCaptures }: Counts) => graphLaunches - graphCaptures;

export function figuresOf(setting: Setting, done: Done): Record<string, Figure> {
  const { decoder, traffic, type, sequences, weights, adapter, ideal } = setting;
  const goals = GOALS[decoder];
  const { plain, adapter: counts, pooled } = done;
  const { passes, promptPasses, sampled } = counts;
  const replays = replayed(counts) / passes;
  const moved = counts.weightBytes / passes / (weights + adapter);
  const cells = counts.attendedCells / counts.ownedCells;
  const over = passes / ideal;
  const figures: Record<string, Figure> = {
    kernelsPerPass: told(counts.kernels / passes),
    ...(plain
      ? {
          kernelsPerPassWithoutAdapter: told(plain.kernels / plain.passes),
          kernelsWithAdapterByThoseWithout: upTo(
            (counts.kernels / passes) * (plain.passes / plain.kernels),
            goals.kernels,
          ),
          // Without an adapter too, since with one its own bytes are in the sum.
          weightsMovedPerPassWithoutAdapter: told(plain.weightBytes / plain.passes / weights),
        }
      : {}),
    launchesPerPass: told(counts.launches / passes),
    graphLaunchesPerPass: told(counts.graphLaunches / passes),
    replayedOfPassesWithoutPrompts: atLeast(replayed(counts) / (passes - promptPasses), goals.replayedWithoutPrompts),
    replayedOfAllPasses: traffic === "agents" ? atLeast(replays, goals.replayedOfAll) : told(replays),
    synchronisationsPerPass: atMost(counts.synchronisations / passes, goals.waits),
    copiesPerPass: upTo(counts.copies / passes, goals.copies),
    bytesToHostPerRow: upTo(counts.bytesToHost / sampled, goals.bytes),
    weightsMovedPerPass: type === "bf16" ? atMost(moved, 1.1) : told(moved),
    attendedOverOwnedCells: pooled ? atMost(cells, 2) : told(cells),
    paddingRowsPerPass: told(counts.paddingRows / passes),
    passesOverIdeal: upTo(over, sequences <= goals.sequences ? goals.passes : undefined),
    sampledPerPass: told(sampled / passes),
  };
  if (decoder === "own") return figures;
  for (const [name, { best, rule }] of Object.entries(ceilingsOf({ ...setting, ...done }, counts))) {
    const figure = figures[name];
    if (figure?.reached === false) figures[name] = { ...figure, best: rounded(best), rule };
  }
  return figures;
}
