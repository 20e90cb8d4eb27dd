/**
 * The base model beside an engine that plays with an adapter: of this process a context of its own on the same weights, whose
 * turns never share a pass or a cell with the other's; on vLLM servers their base model. Nothing loads an adapter on it.
 */
import type { Engine, EngineOptions, LocalEngine } from "../core/engine/engine.js";
import { HoneError } from "../core/util/errors.js";
import { loadLocal } from "./load.js";
import type { LlamaEngine } from "./native.js";
import type { VllmEngine } from "./vllm/engine.js";

export interface FrozenSizes {
  /** Sequences that are evaluated at once; on servers their own affair. */
  readonly sequences: number;
  readonly contextPerSequence: number;
}

export interface Frozen {
  readonly engine: Engine;
  /** To be called before each turn: it computes with as many threads as the other engine has now. */
  pace(): void;
  close(): Promise<void>;
}

/**
 * @param options that the other engine was loaded with; any thread that has joined it may open one, and all share it
 * @throws HoneError where it cannot be loaded; EngineOutOfMemory for a lack of memory
 */
export async function openFrozen(options: EngineOptions, beside: Engine, sizes: FrozenSizes): Promise<Frozen> {
  const { contextPerSequence: context } = sizes;
  if (options.kind === "vllm") {
    const { contextPerSequence: most } = beside.info;
    if (context > most)
      throw new HoneError(`a context of ${context} tokens: the vLLM servers have ${most} (--context)`);
    const nothing = () => undefined;
    return { engine: (beside as VllmEngine).frozen(context), pace: nothing, close: async () => nothing() };
  }
  const { lanes, threads: all, trainedContext } = (beside as LocalEngine).info;
  if (context > trainedContext)
    throw new HoneError(`a context of ${context} tokens: the model was trained with ${trainedContext}`);
  const share = (threads: number) => Math.max(1, Math.floor(threads / lanes));
  const threads = share(all);
  const engine = await loadLocal({
    ...options,
    ...sizes,
    name: "base",
    lanes: 1,
    threads,
    // The weights that are in memory: each graph has its own.
    decoder: (beside as LlamaEngine).decoder,
    // It is opened anew for each step: drawing on the device would be tried each time.
    sampling: "host",
  });
  const pace = () => {
    if (threads > 1) engine.holdThreads(Math.min(threads, share((beside as LocalEngine).stats().threads)));
  };
  return { engine, pace, close: () => engine.close() };
}
