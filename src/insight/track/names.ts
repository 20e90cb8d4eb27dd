/** The names of the trackers. */
import { UsageError } from "../../core/util/errors.js";

const TRACKERS = ["tensorboard", "wandb"] as const;
export type TrackerName = (typeof TRACKERS)[number];

/** @throws UsageError for any other name */
export function readTrackers(given: readonly string[] = []): TrackerName[] {
  const names = [...new Set(given)];
  const wrong = names.find((name) => !(TRACKERS as readonly string[]).includes(name));
  if (wrong !== undefined) throw new UsageError(`--track ${wrong}: give ${TRACKERS.join(" or ")}, or both`);
  return names as TrackerName[];
}
