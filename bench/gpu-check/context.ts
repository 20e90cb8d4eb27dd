/** What a section of `yarn gpu-check` works with. */
import { decodeThreads, type Gpu, loadEngine } from "../../src/engine/index.js";
import type { BenchContext } from "../row.js";

export interface CheckContext {
  /** "cuda"; "vulkan" in a rehearsal on a software GPU. */
  readonly gpu: "cuda" | "vulkan";
  /** Tiny shapes, few sequences. */
  readonly rehearse: boolean;
  log(line: string): void;
  /** Keeps what is known so far: what follows may be cut off. */
  save(results: object): void;
}

/** For what `yarn bench` measures with. */
export function benchContext({ log }: Pick<CheckContext, "log">, gpu: Gpu, rounds: number): BenchContext {
  return {
    ...{ model: undefined, adapter: undefined, sequences: undefined, threads: undefined, db: undefined },
    ...{ gpu, rounds, log },
    load: (wanted) => loadEngine({ ...wanted, gpu, threads: decodeThreads(undefined) }),
  };
}
