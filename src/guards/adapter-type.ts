/** Whether the learner computed with the numbers that the engine plays: its adapter in the engine's type. */
import type { StepMetrics } from "../core/learn/types.js";
import type { MismatchSettings } from "../core/train/guard.js";
import { HoneError } from "../core/util/errors.js";

/** @throws HoneError where it did not; the step must not be committed then */
export function checkAdapterType(
  { adapterTypes: found }: Pick<StepMetrics, "adapterTypes">,
  { numerics: { engine } }: Pick<MismatchSettings, "numerics">,
): void {
  const plays = (/ adapters (\S+)$/.exec(engine)?.[1] ?? "F32").toLowerCase();
  if (found === undefined || found.some((type) => type === plays)) return;
  throw new HoneError(
    `the learner computed with an adapter of ${found.join(" or ")} numbers, and the engine plays it in ${plays}; the step was not taken. The same command tries again`,
  );
}
