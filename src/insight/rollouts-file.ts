/** Plays scenarios outside of training: chooses them, gathers rollouts, writes the trajectory file. */

import { type GatherOptions, gather } from "../core/gather/gather.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { Scenario, Split } from "../core/task/task.js";
import { HoneError, UsageError } from "../core/util/errors.js";
import { LineFile } from "../core/util/files.js";
import { toJson } from "../core/util/json.js";
import { nearest } from "../core/util/nearest.js";
import { hone } from "../core/util/program.js";
import { Random } from "../core/util/random.js";
import { RolloutTally, rolloutsSummary } from "./report/rollout-report.js";

export interface ScenarioChoice {
  readonly split: Split | undefined;
  /** Id of a single scenario. */
  readonly scenario: string | undefined;
  /** Number of scenarios, drawn by the seed; undefined means all. */
  readonly n: number | undefined;
  readonly seed: number;
}

/** Ids that are named where another was asked for. */
const SHOWN = 3;

/**
 * @throws UsageError when the id is unknown
 * @throws HoneError when there is nothing to choose from
 */
export function chooseScenarios(all: readonly Scenario[], choice: ScenarioChoice): Scenario[] {
  if (choice.scenario !== undefined) {
    const found = all.find((scenario) => scenario.id === choice.scenario);
    if (!found) {
      const ids = all.map(({ id }) => id);
      const close = nearest(choice.scenario, ids);
      const some = `there are ${ids.slice(0, SHOWN).join(", ")}${ids.length > SHOWN ? ` and ${ids.length - SHOWN} more` : ""}`;
      throw new UsageError(
        `--scenario: there is no scenario ${choice.scenario}; ${close ? `did you mean ${close}?` : some}`,
      );
    }
    return [found];
  }
  const ofSplit = choice.split ? all.filter((scenario) => scenario.split === choice.split) : [...all];
  if (ofSplit.length === 0) {
    const where = choice.split ? `in the split ${choice.split} (${all.length} in all)` : "at all";
    throw new HoneError(
      `the task has no scenarios ${where}; choose another split, or look at them with \`${hone("check")}\``,
    );
  }
  if (choice.n === undefined || choice.n >= ofSplit.length) return ofSplit;
  return new Random("scenarios", choice.seed).sample(ofSplit, choice.n);
}

interface RolloutsToFile extends Omit<GatherOptions, "step" | "onTrajectory"> {
  /** Path of the trajectory file. */
  readonly out: string;
  /** Called at the start, and after every finished rollout with it. */
  readonly onProgress?: (tally: RolloutTally, total: number, trajectory?: Trajectory) => void;
}

export type RolloutsSummary = Awaited<ReturnType<typeof rolloutsToFile>>["summary"];

/** Prompt tokens of a group, with the common prompt counted once. */
export function uniquePromptTokens(group: readonly Trajectory[]): number {
  const [first] = group;
  if (!first) return 0;
  const shared = first.tokens ? first.tokens.sampled.indexOf(1) : 0;
  const common = shared < 0 ? first.promptTokens : shared;
  return common + group.reduce((sum, { promptTokens }) => sum + promptTokens - common, 0);
}

export async function rolloutsToFile({ out, onProgress, ...playing }: RolloutsToFile) {
  const file = new LineFile(out, `the trajectory file ${out}`);
  const tally = new RolloutTally();
  const total = playing.scenarios.length * playing.groupSize;
  let wanted = false;
  try {
    onProgress?.(tally, total);
    const { groups, failures, interrupted, seconds } = await gather({
      ...playing,
      step: 0,
      onTrajectory: (trajectory) => {
        tally.add(trajectory);
        file.add(toJson(trajectory));
        wanted = true;
        onProgress?.(tally, total, trajectory);
      },
    });
    wanted = true;
    const rollouts = groups.flat();
    const summary = {
      ...rolloutsSummary(rollouts),
      groups: groups.filter((group) => group.length > 0).length,
      /** Prompt tokens, with the common prompt of a group counted once. */
      prompt_tokens_unique: groups.reduce((sum, group) => sum + uniquePromptTokens(group), 0),
      failures,
      interrupted,
      tokens_per_second: tally.tokensPerSecond,
      seconds,
      trajectories: out,
    };
    return { rollouts, summary };
  } finally {
    file.end(wanted);
  }
}
