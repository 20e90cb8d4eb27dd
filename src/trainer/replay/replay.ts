/**
 * Recomputes a committed step from what its run keeps: the task's rewards from the conversations, the training rewards, the
 * advantages, the batch, and the update from the checkpoint before it. Nothing is played, and the run is not changed.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Config, GivenOptions, OptionOf } from "../../core/config/config.js";
import { checkSameRun, taskOptionsIn } from "../../core/run/settings.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { programKind, programReward } from "../../judge/reward/program.js";
import { namedRun } from "../../machine/runs/place.js";
import { RunReader } from "../../machine/runs/reader.js";
import { taskDifferences } from "../../scenarios/task-options.js";
import { compareAdvantages, replayedGroups, replayRewards } from "./rewards.js";
import type { KeptStep, PlanReplay, Replayed, ReplayIo } from "./types.js";
import { replayBatch, replayUpdate } from "./update.js";

/**
 * @param given the options of `config` that were given
 * @throws HoneError when there is no such step, or the run would be another one with today's task or model
 */
export async function replay(
  config: Config<OptionOf<"replay">>,
  given: GivenOptions,
  planOf: PlanReplay,
  io: ReplayIo,
): Promise<Replayed> {
  const { folder, name: run, project } = namedRun(config, config.run, { trained: true });
  const { record, kept } = read(folder, stepOf(config.step));
  const { step: _, ...others } = given;
  const options = { ...others, home: resolve(folder, "../../.."), project, run };
  const reward = record.options.reward === programKind.name ? programReward(noFunction, 0) : undefined;
  const plan = await planOf(options, reward, io);
  const { task, settings, contents } = plan;
  checkSameRun(record, settings, contents, folder, taskDifferences(task.task, taskOptionsIn(record), settings.set));

  const replayed = replayedGroups(kept, plan);
  const scratch = mkdtempSync(join(tmpdir(), "hone-replay-"));
  try {
    const checks = [
      ...(await replayRewards(kept, plan, io)),
      compareAdvantages(kept, replayed),
      await replayBatch(kept, replayed, settings, scratch),
      await replayUpdate(kept, replayed, { plan, scratch, ...io }),
    ];
    return { run, step: kept.at.step, checks, agrees: checks.every(({ result }) => result !== "differs") };
  } finally {
    rmSync(scratch, { recursive: true, force: true });
  }
}

const noFunction = async () => ({ kind: "rewarded", rewards: [] }) as const;

function stepOf(text: string | undefined): number | undefined {
  if (text === undefined) return undefined;
  if (/^[1-9]\d*$/.test(text)) return Number(text);
  throw new UsageError(`--step ${text}: replay takes one step, such as 7`);
}

/** @param asked the newest by default */
function read(folder: string, asked: number | undefined) {
  const reader = RunReader.open(folder);
  try {
    const record = reader.record();
    if (reader.running()) throw new HoneError(`${folder} is being trained; replay a step when that is done`);
    const steps = reader.steps();
    const last = steps.at(-1)?.step ?? 0;
    const step = asked ?? last;
    const at = steps.find((row) => row.step === step);
    const before = steps.find((row) => row.step === step - 1);
    if (!at?.metrics || !before) {
      throw new HoneError(
        `there is no step ${step} to replay: ${folder} has ${last === 0 ? "no step yet" : `steps 1 to ${last}`}`,
      );
    }
    const rollouts = [...reader.rollouts({ phase: "train", from: step, to: step })];
    const lastUpdate = steps.filter(({ metrics }) => metrics?.updates).at(-1)?.step;
    const [difficulty, played] = [reader.difficulty(), reader.playedGroups()];
    const kept: KeptStep = { folder, at, before, rollouts, played, difficulty, isLastUpdate: lastUpdate === step };
    return { record, kept };
  } finally {
    reader.close();
  }
}
