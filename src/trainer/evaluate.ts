/** Evaluates a model on scenarios: success rate with its confidence interval. */
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { Evaluation } from "../core/run/records.js";
import { checkReward } from "../core/task/fields.js";
import type { Reward, Scenario } from "../core/task/task.js";
import { HoneError, messageOf } from "../core/util/errors.js";
import { checkChoice, checkPlay } from "./checked.js";
import { gather } from "./gather.js";
import type { Model } from "./model.js";
import type { OpenTask } from "./task.js";

export interface EvaluateChoice {
  /** Seed of the rollouts. Default the task's. */
  readonly seed?: number;
  /** Computes the reward of a rollout and whether it solved its scenario. Default the task's own reward. */
  readonly grade?: (trajectory: Trajectory) => Reward | Promise<Reward>;
  readonly signal?: AbortSignal;
}

const FIELDS = { seed: true, grade: true, signal: true } satisfies Record<keyof EvaluateChoice, true>;

/**
 * Plays each scenario once. Calls with the same seed draw the same random numbers, so two results differ by their
 * models alone.
 *
 * @throws UsageError when an argument is wrong
 * @throws HoneError when a grade is no reward
 */
export async function evaluate(
  model: Model,
  task: OpenTask,
  scenarios: readonly Scenario[],
  choice: EvaluateChoice = {},
): Promise<Evaluation> {
  checkPlay("evaluate()", model, task, scenarios);
  checkChoice("evaluate()", choice, FIELDS);
  const { seed = task.options.seed, grade = ({ reward }) => reward, signal } = choice;
  const { playGraded } = await import("../core/train/grading.js");
  return playGraded(
    signal ?? new AbortController().signal,
    async (trajectory) => {
      const given = await grade(trajectory);
      try {
        return { kind: "graded", reward: checkReward(given, `the grade of the rollout ${trajectory.id}`) };
      } catch (error) {
        throw new HoneError(messageOf(error));
      }
    },
    async (signal, onGroup) => {
      const played = await gather(model, task, scenarios, { groupSize: 1, seed: `${seed}/eval`, signal, onGroup });
      signal.throwIfAborted();
      return played;
    },
  );
}
