/** Plans from what a program gives: checked options, its own reward, and a model and a task that it has opened. */
import { givenByProgram } from "../core/config/config.js";
import { UsageError } from "../core/util/errors.js";
import { PROGRAM, programReward, type RewardKind } from "../judge/reward/registry.js";
import { checkChoice } from "./checked.js";
import type { Model } from "./model.js";
import { planOf, type RunPlan } from "./plan-run.js";
import type { OpenTask } from "./task.js";
import {
  EVENTS,
  type RewardFunction,
  type RunOptions,
  runOptions,
  type TrainRunChoice,
  type TrainRunOptions,
  trainOptions,
} from "./train-options.js";

/** The program's function as a reward, which the options may not name too. */
async function ownReward(
  reward: RewardFunction | undefined,
  spreadFloor = 0,
  named: unknown = undefined,
): Promise<RewardKind | undefined> {
  if (reward === undefined) {
    if (spreadFloor !== 0) throw new UsageError("spreadFloor is of a reward function; give one, or leave it out");
    return undefined;
  }
  if (typeof reward !== "function")
    throw new UsageError("reward must be a function; a reward of hone's, by its name, is an option of the run");
  if (named !== undefined && named !== PROGRAM) {
    throw new UsageError(`--reward ${named} and a reward function are both given; give one of them`);
  }
  const { checkGroupReward, checkNumbers, isNumbers } = await import("./rewards.js");
  return programReward(async (group, step) => {
    const given = await reward(group, step);
    const name = `the group of ${group[0]?.scenario.id}`;
    if (!isNumbers(given)) {
      checkGroupReward(group, given, name);
      return given;
    }
    checkNumbers(group, given, name);
    return { kind: "rewarded", rewards: given };
  }, spreadFloor);
}

/** @throws UsageError for what is no event, which would never be called */
export function checkEvents(what: string, events: unknown, others: Readonly<Record<string, true>> = {}): void {
  checkChoice(`${what}: the second argument`, events, { ...EVENTS, ...others });
}

/** See `planRun`. */
export async function planGiven(options: TrainRunOptions, choice: TrainRunChoice): Promise<RunPlan> {
  checkEvents("trainRun(), planRun()", choice, { reward: true, spreadFloor: true });
  const { log = () => undefined, signal } = choice;
  const given = await givenByProgram(options, trainOptions);
  const reward = await ownReward(choice.reward, choice.spreadFloor, given.reward);
  return planOf({ given: reward ? { ...given, reward: reward.name } : given, reward, log, signal });
}

/** The learner must know the sampling distribution. */
function refuseTruncation({ topK, topP, minP }: Model["config"]): void {
  const off = { "--top-k": [topK, 0], "--top-p": [topP, 1], "--min-p": [minP, 0] } as const;
  for (const [flag, [given, none]] of Object.entries(off)) {
    if (given === undefined || given === none) continue;
    throw new UsageError(
      `${flag} ${given}: training samples from the model's whole distribution, because the learner must know it; leave it out`,
    );
  }
}

/** See `openRun`. */
export async function planOpened(model: Model, task: OpenTask, options: RunOptions): Promise<RunPlan> {
  const { log = () => undefined, signal, reward: choice, spreadFloor, ...values } = options;
  const own = withoutEvents(values);
  const named = typeof choice === "function" ? undefined : choice;
  const ofRun = await givenByProgram({ ...own, reward: named }, runOptions);
  const reward = await ownReward(typeof choice === "function" ? choice : undefined, spreadFloor);
  const { config: played } = model;
  refuseTruncation(played);
  const { info, limits } = model;
  const { temperature = 1, onToolError, offForm, toolFormat, templateArg, maxThinkingTokens, weights } = played;
  const { gpu, device, threads, engine, engineUrl } = played;
  const given = {
    home: task.options.home,
    ...ofRun,
    ...(reward ? { reward: reward.name } : {}),
    temperature,
    onToolError,
    offForm,
    toolFormat,
    templateArg,
    maxThinkingTokens,
    weights,
    gpu,
    device,
    threads,
    engine,
    engineUrl,
    model: model.reference,
    task: task.reference,
    seed: task.options.seed,
    mcp: task.mcp,
    context: info.contextPerSequence,
    maxTurns: limits.maxTurns,
    maxTokens: limits.maxTokens,
  };
  return planOf({ given, reward, opened: { model, task }, log, signal });
}

function withoutEvents(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).filter(([name]) => !(name in EVENTS)));
}
