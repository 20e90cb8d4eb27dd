/** When memory is short, an engine gets fewer sequences: half as many, repeatedly. */
import { EngineOutOfMemory } from "../core/engine/errors.js";

/**
 * Runs `attempt` with a number of sequences, halved each time that memory does not suffice.
 * @param least minimum: an engine with several lanes needs one sequence for each
 * @throws EngineOutOfMemory when memory does not suffice for the least, or for the weights alone
 */
export async function fitting<T>(
  most: number,
  attempt: (sequences: number) => Promise<T>,
  log: (line: string) => void,
  least = 1,
): Promise<{ result: T; sequences: number }> {
  for (let sequences = most; ; ) {
    try {
      return { result: await attempt(sequences), sequences };
    } catch (error) {
      if (!(error instanceof EngineOutOfMemory) || !error.fewerHelp || sequences <= least) throw error;
      const fewer = Math.max(least, Math.floor(sequences / 2));
      log(`the engine did not fit into memory; from now on --concurrency ${fewer} instead of ${sequences}`);
      sequences = fewer;
    }
  }
}
