/**
 * A row of the benchmark: what it is, and what a file in bench/rows/ has to export as `bench`.
 *
 * Speed is claimed here and nowhere else, and only as a ratio of two things measured in one run, turn by turn: a
 * figure alone says more about the machine and its neighbours than about the code.
 */
import type { Engine, EngineOptions, Gpu } from "../src/engine/index.js";
import type { ModelSet } from "./models.js";

export interface Row {
  /** The bench's name, or one that begins with it. */
  readonly name: string;
  /** File name of the model, and what is on it. */
  readonly model: string;
  /** Sequences at once; null where the row has none. */
  readonly sequences: number | null;
  readonly ours: number;
  /** What it is compared with; null where a row has nothing to be compared with. */
  readonly theirs: number | null;
  /** How many times better ours is: above 1 is better, whatever the unit. null with `theirs`. */
  readonly ratio: number | null;
  /** Of `ours` and `theirs`. */
  readonly unit: "tokens/s" | "ms" | "share" | "MB" | "rows/s" | "rollouts/s" | "cosine" | "passes";
  /** What hone promises: "ratio >= 0.97". Empty where a row only reports. */
  readonly target: string;
  /** How `ours` and `theirs` were made, where the name does not say it. */
  readonly note?: string;
  /** CPU threads that each side had; `yarn bench` fills it in. */
  readonly threads?: number;
  /** Every pair that was measured; `ours`, `theirs` and `ratio` are medians. */
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
  /** Test models it needs when the user names no model. */
  readonly models: readonly ModelSet[];
  run(context: BenchContext): Promise<Row[]>;
}

/** What the command line decided, and what rows share. */
export interface BenchContext {
  /** The user's model instead of the bench's own. */
  readonly model: string | undefined;
  /** The user's adapter, on the user's model. */
  readonly adapter: string | undefined;
  /** The user's numbers of sequences instead of the bench's own. */
  readonly sequences: readonly number[] | undefined;
  /** How often both sides of a comparison are measured. */
  readonly rounds: number;
  /** The user's number of CPU threads. */
  readonly threads: number | undefined;
  /** The device that was asked for; false for the CPU. */
  readonly gpu: Gpu;
  /** The user's mail database, for rows that train. */
  readonly db: string | undefined;
  /** Loads an engine on the chosen device with the chosen threads. Close it before the next one is loaded. */
  load(options: Omit<EngineOptions, "gpu" | "device" | "threads">): Promise<Engine>;
  /** Says on stderr what is going on. */
  log(line: string): void;
}
