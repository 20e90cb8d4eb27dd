/** Every rollout has the seed of its own place: the same draws in several groups or steps teach less than they seem to. */
import type { Trajectory } from "../core/rollout/trajectory.js";
import { HoneError } from "../core/util/errors.js";
import { deriveSeed } from "../core/util/random.js";

/**
 * @param run the first of the names from which seeds are derived, then the step
 * @throws HoneError for a rollout with the seed of another place
 */
export function checkSeeds(group: readonly Trajectory[], run: string, step: number): void {
  const other = group.find(({ scenario, index, seed }) => seed !== deriveSeed(run, step, scenario.id, index));
  if (other === undefined) return;
  throw new HoneError(
    `the rollout ${other.id} was drawn with the seed ${other.seed}, which is not that of its scenario, index and step; the step was not taken.\nThe same command plays it again`,
  );
}
