/**
 * Recomputes committed steps from what their run keeps: the task's rewards from the conversations, the training rewards, the
 * advantages, the batch, and the update from the checkpoint before it. Nothing is played, and the run is not changed.
 */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { Config, GivenOptions, OptionOf } from "../../core/config/config.js";
import type { StepRow } from "../../core/run/records.js";
import { checkSameRun, type RunSettings, taskOptionsIn } from "../../core/run/settings.js";
import { HoneError, UsageError } from "../../core/util/errors.js";
import { removedAfter } from "../../core/util/files.js";
import { isRecomputable } from "../../judge/reward/open.js";
import { PROGRAM, programReward } from "../../judge/reward/registry.js";
import { namedRun } from "../../machine/runs/place.js";
import { RunReader } from "../../machine/runs/reader.js";
import { taskDifferences } from "../../scenarios/task-options.js";
import type { RunPlan } from "../plan-run.js";
import { replayRate } from "./rate.js";
import { compareAdvantages, replayedGroups, replayRewards } from "./rewards.js";
import type { KeptStep, PlanReplay, ReplayCheck, Replayed, ReplayedStep, ReplayIo } from "./types.js";
import { replayBatch, replayUpdate } from "./update.js";

/**
 * @param given the options of `config` that were given
 * @throws HoneError when there is no such step, or the run would be another one with today's task or model
 */
export async function replay(
  config: Config<OptionOf<"replay">>,
  given: GivenOptions,
  planOf: PlanReplay,
  { log, signal, onStep }: ReplayIo,
): Promise<Replayed> {
  const { folder, name: run, project } = namedRun(config, config.run, { trained: true });
  using reader = RunReader.open(folder);
  if (reader.running()) throw new HoneError(`${folder} is being trained; replay a step when that is done`);
  const record = reader.record();
  const rows = reader.steps();
  const asked = stepsToReplay(config.step, rows.at(-1)?.step ?? 0, folder);
  // Each step has a learner of its own, which says the same.
  const told = new Set<string>();
  const logOnce = (line: string) => {
    if (!told.has(line)) log(line);
    told.add(line);
  };
  const io = { log: logOnce, signal };
  const { step: _, ...others } = given;
  const options = { ...others, home: resolve(folder, "../../.."), project, run };
  const reward = record.options.reward === PROGRAM ? programReward(noFunction, 0) : undefined;
  const plan = await planOf(options, reward, io);
  const { task, settings, contents } = plan;
  checkSameRun(record, settings, contents, folder, taskDifferences(task.task, taskOptionsIn(record), settings.set));
  const steps: ReplayedStep[] = [];
  for (const step of asked) {
    signal.throwIfAborted();
    const done = { step, checks: await replayStep(keptStep(reader, rows, folder, step), plan, io) };
    steps.push(done);
    onStep?.(run, done);
  }
  const agrees = steps.every(({ checks }) => checks.every(({ result }) => result !== "differs"));
  return { run, steps, notRebuilt: notRebuilt(settings), agrees };
}

const noFunction = async () => ({ kind: "rewarded", rewards: [] }) as const;

async function replayStep(kept: KeptStep, plan: RunPlan, io: ReplayIo): Promise<ReplayCheck[]> {
  const replayed = replayedGroups(kept, plan);
  const scratch = mkdtempSync(join(tmpdir(), "hone-replay-"));
  using _scratch = removedAfter(scratch);
  return [
    replayRate(kept.at, plan.settings),
    ...(await replayRewards(kept, plan, io)),
    compareAdvantages(kept, replayed),
    await replayBatch(kept, replayed, plan.settings, scratch),
    await replayUpdate(kept, replayed, { plan, scratch, ...io }),
  ];
}

/**
 * By default the first step and the newest: the first begins from the base model, whatever the checkpoints that are kept.
 * @param last 0 where there is none yet
 * @throws UsageError or HoneError when there is no such step
 */
export function stepsToReplay(text: string | undefined, last: number, folder: string): readonly number[] {
  const missing = (step: string | number) =>
    new HoneError(
      `there is no step ${step} to replay: ${folder} has ${last === 0 ? "no step yet" : `steps 1 to ${last}`}`,
    );
  if (text !== undefined && text !== "all" && !/^[1-9]\d*$/.test(text)) {
    throw new UsageError(`--step ${text}: replay takes one step, such as 7, or all`);
  }
  if (text !== undefined && text !== "all") {
    if (Number(text) > last) throw missing(text);
    return [Number(text)];
  }
  if (last === 0) throw missing(1);
  return text === "all" ? Array.from({ length: last }, (_, i) => i + 1) : [...new Set([1, last])];
}

/** What no check of a step recomputes. */
const notRebuilt = (settings: RunSettings): string[] => [
  "the play: tokens, which of them were sampled, and their log-probabilities are those stored",
  ...(isRecomputable(settings) ? [] : ["the training rewards: those stored are used"]),
  "the step's measurements other than its gradient and its learning rate",
];

function keptStep(reader: RunReader, steps: readonly StepRow[], folder: string, step: number): KeptStep {
  const at = steps.find((row) => row.step === step);
  const before = steps.find((row) => row.step === step - 1);
  if (!at?.metrics || !before) throw new HoneError(`step ${step} of ${folder} is not whole: it cannot be replayed`);
  const rollouts = [...reader.rollouts({ phase: "train", from: step, to: step })];
  const lastUpdate = steps.filter(({ metrics }) => metrics?.updates).at(-1)?.step;
  const [difficulty, played] = [reader.difficulty(), reader.groupOutcomes()];
  return { folder, at, before, rollouts, played, difficulty, isLastUpdate: lastUpdate === step };
}
