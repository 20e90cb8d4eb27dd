/**
 * Composed rewards: named parts with weights, each reported beside the total. A part is a function of the finished
 * rollout; checks.ts has the common ones. One more part may be a judge's score (RULER), added in training (`--reward
 * composed`).
 */

import type { FinishedRollout, Reward, Scenario } from "../../core/task/task.js";
import { HoneError, messageOf } from "../../core/util/errors.js";
import { toJson } from "../../core/util/json.js";

/** Usually from 0 to 1; true is 1, false is 0. */
export type Score<S extends Scenario = Scenario, E = unknown> = (
  rollout: FinishedRollout,
  scenario: S,
  env: E,
) => number | boolean | Promise<number | boolean>;

export interface RewardPart<S extends Scenario = Scenario, E = unknown> {
  /** Contribution to the total for a score of 1; a negative weight is a penalty. */
  readonly weight: number;
  readonly score: Score<S, E>;
}

export interface Composition<S extends Scenario = Scenario, E = unknown> {
  readonly parts: Readonly<Record<string, RewardPart<S, E>>>;
  /** Decides whether the scenario is solved: a part that must score 1, or a function of all scores. */
  readonly success: string | ((scores: Readonly<Record<string, number>>) => boolean);
  /** Weight of a judge's score of the rollout, from 0 to 1: `--reward composed`. */
  readonly ruler?: number;
}

export interface ComposedReward<S extends Scenario = Scenario, E = unknown> {
  (rollout: FinishedRollout, scenario: S, env: E): Promise<Reward>;
  /** Undefined without a judge's part. */
  readonly rulerWeight: number | undefined;
}

/** Name of the judge's part. */
export const RULER_PART = "ruler";

async function scoreOf<S extends Scenario, E>(
  name: string,
  { score }: RewardPart<S, E>,
  ...about: [FinishedRollout, S, E]
): Promise<number> {
  const where = `the part ${name} of the reward, on scenario ${about[1].id},`;
  let value: number | boolean;
  try {
    value = await score(...about);
  } catch (error) {
    throw new HoneError(`${where} threw: ${messageOf(error)}`, { cause: error });
  }
  const number = typeof value === "boolean" ? Number(value) : value;
  if (typeof number !== "number" || !Number.isFinite(number))
    throw new HoneError(
      `${where} gave ${value === undefined ? "undefined" : toJson(value)} (${String(value)}), which is no number`,
    );
  return number;
}

/**
 * Creates a task's `reward` from parts. A part that throws, or returns no finite number, fails the rollout with an
 * error that names it.
 *
 * @throws TypeError without parts, or when a name is reserved
 */
export function composeReward<S extends Scenario = Scenario, E = unknown>({
  parts,
  success,
  ruler,
}: Composition<S, E>): ComposedReward<S, E> {
  const named = Object.entries(parts);
  if (named.length === 0) throw new TypeError("composeReward: give at least one part");
  if (Object.hasOwn(parts, RULER_PART)) throw new TypeError(`composeReward: the name ${RULER_PART} is the judge's`);
  if (typeof success === "string" && !Object.hasOwn(parts, success))
    throw new TypeError(`composeReward: success is ${success}, and there is no such part`);
  const wrong = [...named.map(([name, { weight }]) => [name, weight] as const), [RULER_PART, ruler ?? 0] as const].find(
    ([, weight]) => !Number.isFinite(weight),
  );
  if (wrong) throw new TypeError(`composeReward: the weight of ${wrong[0]} is ${wrong[1]}, which is no number`);

  const reward = async (rollout: FinishedRollout, scenario: S, env: E): Promise<Reward> => {
    const scores: Record<string, number> = {};
    for (const [name, part] of named) scores[name] = await scoreOf(name, part, rollout, scenario, env);
    return {
      reward: named.reduce((sum, [name, { weight }]) => sum + weight * (scores[name] as number), 0),
      success: typeof success === "string" ? (scores[success] as number) >= 1 : success(scores),
      parts: scores,
    };
  };
  return Object.assign(reward, { rulerWeight: ruler });
}
