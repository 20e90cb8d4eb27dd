/** The one factory of engines: which program an engine's options name. */
import type { Engine, EngineOptions, LocalEngine, LocalEngineOptions, VllmOptions } from "./engine.js";
import { loadLocal } from "./load.js";
import { openVllm, type VllmEngine } from "./vllm/engine.js";

/** Of an engine that only tokenizes. */
const WORDS = { name: "words", threads: 1, sequences: 1, contextPerSequence: 64 } as const;

/**
 * Loads a local engine, or joins the one that another thread of this process has loaded (see `loadLocal`); or connects to
 * servers. Each caller must close it.
 *
 * @param log receives what the user should know of it, in lines
 * @throws HoneError when it cannot be had, in words for the user
 */
export function loadEngine(options: LocalEngineOptions, log?: (line: string) => void): Promise<LocalEngine>;
export function loadEngine(options: VllmOptions, log?: (line: string) => void): Promise<VllmEngine>;
export function loadEngine(options: EngineOptions, log?: (line: string) => void): Promise<Engine>;
export async function loadEngine(options: EngineOptions, log?: (line: string) => void): Promise<Engine> {
  // The card's memory is the servers', or the learner's.
  if (options.kind === "vllm") {
    return openVllm(options, (model) => openWords({ model, gpu: options.gpu, onHost: true }), log);
  }
  return loadLocal(options, log);
}

type Words = Pick<LocalEngineOptions, "model" | "onHost"> & { readonly gpu: LocalEngineOptions["gpu"] | undefined };

/** For engines whose text is tokenized here. */
const openWords = (words: Words) => loadLocal({ ...words, ...WORDS } as LocalEngineOptions);
