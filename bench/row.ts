/**
 * A row of the benchmark, and the `bench` export of files in bench/rows/.
 *
 * Speed is claimed only here, as a ratio of two alternating measurements in one run: an absolute figure says more about
 * the machine and its load than about the code.
 */
import type { Gpu, LocalEngine, LocalEngineOptions } from "../src/core/engine/engine.js";
import type { ModelSet } from "./models.js";

/** Shapes of the models on which learners are compared. */
export const shapes = ["tiny", "smollm2", "0.5b"] as const;
export type Shape = (typeof shapes)[number];

export interface Row {
  /** The bench's name, or a name that begins with it. */
  readonly name: string;
  /** File name of the model, and its adapter. */
  readonly model: string;
  /** Number of concurrent sequences; null if the row has none. */
  readonly sequences: number | null;
  readonly ours: number;
  /** The other side of the comparison; null if there is none. */
  readonly theirs: number | null;
  /** How many times better ours is: above 1 is better, for every unit. null with `theirs`. */
  readonly ratio: number | null;
  /** Unit of `ours` and `theirs`. */
  readonly unit: "tokens/s" | "ms" | "share" | "MB" | "rows/s" | "rollouts/s" | "cosine" | "passes" | "GB/s";
  /** The promised bound: "ratio >= 0.97". Empty if the row only reports. */
  readonly target: string;
  /** Settings of `ours` and `theirs`, if the name does not state them. */
  readonly note?: string;
  /** Number of CPU threads of each side, filled in by `yarn bench`. */
  readonly threads?: number;
  /** All measured pairs; `ours`, `theirs` and `ratio` are medians. */
  readonly rounds?: readonly Pair[];
}

export interface Pair {
  readonly ours: number;
  readonly theirs: number;
}

export interface Bench {
  readonly name: string;
  /** One line for `yarn bench --list`. */
  readonly about: string;
  /** Test models needed if the user names no model. */
  readonly models: readonly ModelSet[];
  run(context: BenchContext): Promise<Row[]>;
}

/** Options of the command line, and functions shared by rows. */
export interface BenchContext {
  /** The user's model instead of the bench's own. */
  readonly model: string | undefined;
  /** The user's adapter, on the user's model. */
  readonly adapter: string | undefined;
  /** The user's numbers of sequences instead of the bench's own. */
  readonly sequences: readonly number[] | undefined;
  /** Number of measurements of both sides. */
  readonly rounds: number;
  /** The user's number of CPU threads. */
  readonly threads: number | undefined;
  /** The requested device; false for the CPU. */
  readonly gpu: Gpu;
  /** The only shape for rows that compare learners. */
  readonly shape: Shape | undefined;
  /** The user's mail database, for rows that train. */
  readonly db: string | undefined;
  /** Loads an engine on the chosen device, with the chosen threads unless told otherwise. Close it before the next. */
  load(options: Omit<LocalEngineOptions, "gpu" | "device">): Promise<LocalEngine>;
  /** Writes a line to stderr. */
  log(line: string): void;
}
