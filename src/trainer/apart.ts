/** Whether engine and learner compute at the same time (`--learner-device`, `--staleness`), and what follows for other options. */
import type { Config } from "../core/config/config.js";
import type { RunSettings } from "../core/run/settings.js";
import { UsageError } from "../core/util/errors.js";
import { decodeThreads, usableCores } from "../engine/threads.js";

/** Whether an engine of this machine, without a device of the learner's own, is on the learner's card. */
export const sharesCard = (
  { engineUrl, learnerDevice }: Pick<Config, "engineUrl" | "learnerDevice">,
  gpu: { readonly kind: string | false } | null,
): boolean => gpu?.kind === "cuda" && engineUrl === undefined && learnerDevice !== "cpu";

/** @throws UsageError for options that move memory between an engine and a learner which do not take turns */
export function checkAwake({
  releaseWeights,
  learnerLifetime,
}: Partial<Pick<Config, "releaseWeights" | "learnerLifetime">>): void {
  const why = "and with --learner-device or --staleness each keeps its own";
  if (releaseWeights) {
    throw new UsageError(
      `--release-weights gives the engine's memory to the learner during updates, ${why}; leave it out`,
    );
  }
  if (learnerLifetime === "offload") {
    throw new UsageError(
      `--learner-lifetime offload leaves the GPU to the engine between updates, ${why}; leave it out`,
    );
  }
}

/** @throws UsageError where steps are to be played ahead, and engine and learner must take turns */
export function checkStaleness({
  settings: { staleness },
  apart,
}: {
  readonly settings: Pick<RunSettings, "staleness">;
  readonly apart: boolean;
}): void {
  if (staleness === 0 || apart) return;
  throw new UsageError(
    `--staleness ${staleness}: the engine plays while the learner computes, and here both are on one card.\nGive the learner another with --learner-device, an index or cpu, or play on servers with --engine vllm --engine-url`,
  );
}

/**
 * CPU threads of the engine, undefined for its own choice, and of the learner. Where both compute on the CPU at the same time they
 * share out its cores: --threads are the engine's, by default half of them.
 */
export function dividedCores(
  { threads, engineUrl }: Pick<Config, "threads" | "engineUrl">,
  staleness: number,
  gpu: boolean,
): { readonly engine: number | undefined; readonly learner: number } {
  if (staleness === 0 || gpu || engineUrl !== undefined) return { engine: threads, learner: decodeThreads(threads) };
  const cores = usableCores();
  const engine = Math.min(threads ?? Math.max(1, Math.floor(cores / 2)), cores);
  return { engine, learner: Math.max(1, cores - engine) };
}
