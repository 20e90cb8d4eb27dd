/**
 * `--difficulty 0.1..0.9`: before the first step the model that the run starts from plays scenarios, and those that it solves
 * too seldom or too often are set aside, with `--rest` for a while. Their rollouts are kept as training step 0, and what came of each scenario for good,
 * so that a run which goes on trains on the same ones. Only as many are played as the run's steps need.
 */

import { comparable } from "../core/reward/comparable.js";
import type { Trajectory } from "../core/rollout/trajectory.js";
import type { GroupOutcome, ScenarioDifficulty } from "../core/run/records.js";
import type { RunSettings } from "../core/run/settings.js";
import { gradeOwn, playAndGrade } from "../core/train/grading.js";
import type { LoopParts, StepScenarios } from "../core/train/parts.js";
import { playSaved } from "../core/train/saved-play.js";
import { use } from "../core/train/settle.js";
import { HoneError } from "../core/util/errors.js";
import { hone } from "../core/util/program.js";
import { type DifficultyCount, difficultyOf, difficultyText, isWithin } from "../insight/report/difficulty.js";
import type { ScenarioSampler } from "./sampler.js";

type Parts = Omit<LoopParts, "scenarios">;
type Wanted = Pick<
  RunSettings,
  "difficulty" | "groupSize" | "groupsPerStep" | "steps" | "refill" | "rest" | "staleness"
>;

/**
 * @param loading the learner, which may refuse while scenarios are played
 * @returns the scenarios that are trained on; all of them without --difficulty and --rest
 * @throws HoneError when too few are left for a step, and none comes back
 */
export async function withinDifficulty(
  parts: Parts,
  all: ScenarioSampler,
  wanted: Wanted,
  loading?: Promise<void>,
): Promise<StepScenarios> {
  const { difficulty: range, groupsPerStep, steps, refill, rest } = wanted;
  const { store } = parts.run;
  if (range === undefined) return chosenScenarios(all, wanted, [], () => store.groupOutcomes());
  const order = all.ofEpoch(0);
  // A refill draws from all that are within.
  const needed = refill > 0 ? order.length : Math.min(order.length, steps * groupsPerStep);
  const refused = new AbortController();
  loading?.catch((error: unknown) => refused.abort(error));
  const signal = AbortSignal.any([parts.signal, refused.signal]);
  let isLogged = false;
  for (;;) {
    const measured = store.difficulty();
    const kept = measured.filter((row) => isWithin(range, row)).length;
    if (kept >= needed || measured.length === order.length) break;
    if (!isLogged) logCost(parts, wanted, order.length - measured.length, needed - kept);
    isLogged = true;
    const next = order.slice(measured.length, measured.length + Math.max(groupsPerStep, needed - kept));
    try {
      await measure({ ...parts, signal }, next, wanted.groupSize);
    } catch (error) {
      // What was played meanwhile was interrupted by it.
      refused.signal.throwIfAborted();
      throw error;
    }
  }
  const count = difficultyOf(store.difficulty(), range) as DifficultyCount;
  if (isLogged) parts.view.log(difficultyText(count));
  if (count.kept < groupsPerStep && rest === 0) {
    throw new HoneError(
      `--difficulty ${range} leaves ${count.kept} scenarios, and a step plays ${groupsPerStep} (--groups-per-step): ${difficultyText(count)}.\nGive a wider range, fewer --groups-per-step or more scenarios, or start a new run from a model that was warmed up (\`${hone("sft")}\`)`,
    );
  }
  return chosenScenarios(all, wanted, store.difficulty(), () => store.groupOutcomes());
}

/**
 * What the steps choose from: scenarios that are too easy or too hard are out of it for good, or rest (--rest), as do those
 * whose groups taught nothing.
 *
 * @param measured with the start's model, for --difficulty
 * @param played groups of all committed steps
 */
export function chosenScenarios(
  all: ScenarioSampler,
  { difficulty: range, rest, staleness }: Pick<Wanted, "difficulty" | "rest" | "staleness">,
  measured: readonly ScenarioDifficulty[],
  played: () => readonly GroupOutcome[],
): StepScenarios {
  const isOutside = (row: ScenarioDifficulty | undefined) => range !== undefined && !(row && isWithin(range, row));
  const rows = new Map(measured.map((row) => [row.scenario, row]));
  // Without rest those are out too that were not measured.
  const ids = rest > 0 ? [...rows.keys()] : all.ofEpoch(0).map(({ id }) => id);
  return all.without({ rest, staleness, aside: ids.filter((id) => isOutside(rows.get(id))), played });
}

/** What it costs, before it is spent. */
function logCost({ view }: Parts, { difficulty, groupSize, groupsPerStep }: Wanted, left: number, missing: number) {
  const [least, most] = [Math.min(missing, left), left].map((scenarios) => scenarios * groupSize) as [number, number];
  const number = least === most ? `${most}` : `${least} to ${most}`;
  view.log(
    `--difficulty ${difficulty}: first ${number} rollouts, ${groupSize} of a scenario, until ${missing} scenarios are found or none is left; a training step plays ${groupsPerStep * groupSize}`,
  );
}

async function measure(
  parts: Parts,
  scenarios: ReturnType<ScenarioSampler["ofEpoch"]>,
  groupSize: number,
): Promise<void> {
  const { run, grade = gradeOwn, signal } = parts;
  const start = run.store.firstStep();
  await use(parts, start);
  const { graded } = await playAndGrade(signal, grade, (signal, onGroup) =>
    playSaved({ ...parts, signal }, { phase: "train", step: 0, scenarios, groupSize, adapter: start.adapter, onGroup }),
  );
  signal.throwIfAborted();
  const groups = new Map<string, Trajectory[]>(scenarios.map(({ id }) => [id, []]));
  for (const trajectory of graded) groups.get(trajectory.scenario.id)?.push(trajectory);
  run.store.noteDifficulty(
    [...groups].map(([scenario, played]) => {
      // An end that was not the model's doing says nothing of the scenario.
      const counted = comparable(played);
      return { scenario, n: counted.length, successes: counted.filter(({ reward }) => reward.success).length };
    }),
  );
}
