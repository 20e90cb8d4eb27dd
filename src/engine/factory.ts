/** The one factory of engines: which program an engine's options name, and nothing loaded of the others. */

import type { Engine, EngineOptions, LocalEngine, LocalEngineOptions, VllmOptions } from "../core/engine/engine.js";
import type { Pauses } from "../core/util/time-limit.js";
import { loadLocal } from "./load.js";
import type { VllmEngine } from "./vllm/engine.js";

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
    const { openVllm } = await import("./vllm/engine.js");
    const { gpu = "auto" } = options;
    return openVllm(options, (model) => loadLocal({ ...WORDS, model, gpu, onHost: true }), log);
  }
  return loadLocal(options, log);
}

/** Times in which no server of an engine answers; undefined for engines without servers. */
export async function outagesOf(options: EngineOptions): Promise<Pauses | undefined> {
  if (options.kind !== "vllm" || !options.shared) return undefined;
  const { Board } = await import("./vllm/board.js");
  const board = Board.at(options.shared.board);
  return { milliseconds: () => board.outage(), lasts: () => board.answering().length === 0 };
}

/** What other threads load the owner's engine by. */
export function joinOptions({ own: _, signal: __, ...options }: VllmOptions, engine: VllmEngine): VllmOptions {
  return { ...options, shared: engine.shared };
}
