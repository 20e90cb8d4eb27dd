/** Plays groups of rollouts with a model, outside of a training loop of hone's own. */
import type { Gathered } from "../core/gather/gather.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { Scenario } from "../core/task/task.js";
import { checkChoice, checkPlay, checkWhole } from "./checked.js";
import type { Model } from "./model.js";
import type { OpenTask } from "./task.js";

export interface GatherChoice {
  /** Rollouts of each scenario. Default 4. */
  readonly groupSize?: number;
  /** Distinguishes calls with the same seed, as the step of a run does. Default 0. */
  readonly step?: number;
  /** Default the task's. */
  readonly seed?: number | string;
  /** Abort to stop early; finished groups are returned. */
  readonly signal?: AbortSignal;
  readonly onTrajectory?: (trajectory: Trajectory) => void;
  /** Called with every group as soon as it is complete, while others are still being played. */
  readonly onGroup?: (group: readonly Trajectory[]) => void;
}

const FIELDS = {
  groupSize: true,
  step: true,
  seed: true,
  signal: true,
  onTrajectory: true,
  onGroup: true,
} satisfies Record<keyof GatherChoice, true>;

/**
 * Plays many rollouts at once, on worker threads. The same model, adapter, scenarios, seed and step draw the same
 * random numbers.
 *
 * @throws UsageError when an argument is wrong
 * @throws HoneError when more rollouts fail than the model's `maxExceptions` allows
 */
export async function gather(
  model: Model,
  task: OpenTask,
  scenarios: readonly Scenario[],
  choice: GatherChoice = {},
): Promise<Gathered> {
  checkPlay("gather()", model, task, scenarios);
  checkChoice("gather()", choice, FIELDS);
  const { groupSize = 4, step = 0, seed = task.options.seed, ...more } = choice;
  checkWhole("gather(): groupSize", groupSize, 1);
  checkWhole("gather(): step", step, 0);
  const [{ chatOf, requireFormat }, { gather: gatherRollouts }] = await Promise.all([
    import("../chat/chat.js"),
    import("../core/gather/gather.js"),
  ]);
  requireFormat(chatOf(model.engine, model.player.chat), task.task.tools, model.info.model);
  const playing = model.playing(task);
  return gatherRollouts({ ...playing, scenarios, groupSize, seedName: seed, step, onNote: model.log, ...more });
}
