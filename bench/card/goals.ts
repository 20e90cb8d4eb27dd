/** Figures of a traffic from its counts, each with its goal. */
import { ceilingsOf } from "./ceilings.js";
import type { Counts } from "./counts.js";
import type { Done } from "./engine.js";

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

export interface Setting {
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
  const { traffic, type, sequences, weights, adapter, ideal } = setting;
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
          // Without an adapter too, since with one its own bytes are in the sum.
          weightsMovedPerPassWithoutAdapter: told(plain.weightBytes / plain.passes / weights),
        }
      : {}),
    launchesPerPass: told(counts.launches / passes),
    graphLaunchesPerPass: told(counts.graphLaunches / passes),
    replayedOfPassesWithoutPrompts: atLeast(replayed(counts) / (passes - promptPasses), 0.9),
    replayedOfAllPasses: traffic === "agents" ? atLeast(replays, 0.6) : told(replays),
    synchronisationsPerPass: atMost(counts.synchronisations / passes, 16),
    copiesPerPass: told(counts.copies / passes),
    bytesToHostPerRow: atMost(counts.bytesToHost / sampled, 16),
    weightsMovedPerPass: type === "bf16" ? atMost(moved, 1.1) : told(moved),
    attendedOverOwnedCells: pooled ? atMost(cells, 2) : told(cells),
    paddingRowsPerPass: told(counts.paddingRows / passes),
    passesOverIdeal: sequences <= 64 ? atMost(over, 1.1) : told(over),
    sampledPerPass: told(sampled / passes),
  };
  for (const [name, { best, rule }] of Object.entries(ceilingsOf({ ...setting, ...done }, counts))) {
    const figure = figures[name];
    if (figure?.reached === false) figures[name] = { ...figure, best: rounded(best), rule };
  }
  return figures;
}
