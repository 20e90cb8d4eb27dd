/** Loads the engine with fewer sequences where memory is short. */
import type { LocalEngine, LocalEngineOptions } from "../core/engine/engine.js";
import { loadEngine } from "./factory.js";
import { fitting } from "./fitting.js";

/** Loads an engine with as many of the sequences as fit in memory. Returns the options it was loaded with. */
export async function loadFitting(
  options: LocalEngineOptions,
  log: (line: string) => void,
): Promise<{ engine: LocalEngine; options: LocalEngineOptions }> {
  const attempt = (sequences: number) => loadEngine({ ...options, sequences }, log);
  const loaded = await fitting(options.sequences, attempt, log, options.lanes);
  return { engine: loaded.result, options: { ...options, sequences: loaded.sequences } };
}
