/** A section of `yarn gpu-check`, and its context. */

import type { Gpu } from "../../src/core/engine/engine.js";
import { HoneError } from "../../src/core/util/errors.js";
import { loadEngine } from "../../src/engine/factory.js";
import { decodeThreads } from "../../src/engine/threads.js";
import type { BenchContext } from "../row.js";

/** "vulkan" and false, the CPU, are rehearsals. */
export type CheckGpu = "cuda" | "vulkan" | false;

/** As `--gpu` of hone's commands takes it. */
export const gpuOption = (gpu: CheckGpu) => (gpu === false ? "off" : gpu);

/** How a section ends that went as far as it goes on numbers that nobody computed. */
export const NOT_COUNTABLE = "not countable on the null card";
export class NotCountable extends HoneError {}

export interface CheckContext {
  readonly gpu: CheckGpu;
  /** Tiny shapes, few sequences: whether all of it runs, not how fast. */
  readonly small: boolean;
  /** The card is a stand-in that does not compute (test/null-card). */
  readonly standIn: boolean;
  /** What an earlier section saved. */
  earlier(section: string): object | undefined;
  log(line: string): void;
  /** Saves the results so far, in case the section is cut off. */
  save(results: object): void;
}

export interface Section {
  readonly name: string;
  readonly about: string;
  run(context: CheckContext): Promise<void>;
}

/** PyTorch cannot use a software GPU. */
export const learnerGpu = ({ gpu }: Pick<CheckContext, "gpu">) => (gpu === "cuda" ? gpu : false);

/** Context for the measurements of `yarn bench`. On a GPU the engine chooses its CPU threads. */
export function benchContext({ log }: Pick<CheckContext, "log">, gpu: Gpu, rounds: number): BenchContext {
  return {
    model: undefined,
    adapter: undefined,
    sequences: undefined,
    threads: undefined,
    db: undefined,
    gpu,
    rounds,
    log,
    shape: undefined,
    load: (wanted) =>
      loadEngine({ ...(gpu === false ? { threads: decodeThreads(undefined) } : {}), ...wanted, gpu }, log),
  };
}
