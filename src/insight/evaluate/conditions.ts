/** The conditions that all players share: scenarios, limits, temperature, and who decides whether an answer is right. */
import { serverLogs, toolsFingerprint, withServers } from "../../agent/servers.js";
import {
  type GivenOptions,
  type KeptOption,
  keptOptions,
  type OptionOf,
  optionsOf,
  withDefaults,
} from "../../core/config/config.js";
import { CONTEXT } from "../../core/config/defaults.js";
import type { LocalEngine } from "../../core/engine/engine.js";
import type { GradeRollout } from "../../core/reward/reward.js";
import { type RunSettings, settingsOf } from "../../core/run/settings.js";
import { gradeOwn } from "../../core/train/grading.js";
import { UsageError } from "../../core/util/errors.js";
import { requireClaim } from "../../judge/reward/claims.js";
import { requireJudge } from "../../judge/reward/judge-options.js";
import { rewardNamed } from "../../judge/reward/registry.js";
import { withAbsolutePaths } from "../../machine/models/absolute-paths.js";
import type { OpenCheckpoints } from "../../machine/runs/checkpoint-choice.js";
import { scenariosFingerprint, validationScenarios } from "../../scenarios/held-out.js";
import { loadTask, scenariosOf } from "../../scenarios/load.js";
import { givenForTask, recordedForTask, taskOptionsOf } from "../../scenarios/task-options.js";
import { chooseScenarios } from "../rollouts-file.js";
import type { Entrants, EvalConfig } from "./entrants.js";

/** Tokens of a turn, when neither a run nor the user gives a value. */
const MAX_TOKENS = 2048;

type Changeable = KeptOption & OptionOf<"eval">;

/** Settings of a run that an evaluation may override. */
const changeable = (): readonly Changeable[] =>
  keptOptions().filter((name): name is Changeable => (optionsOf("eval") as readonly string[]).includes(name));

type Settings = Pick<
  RunSettings,
  Exclude<Changeable, "model" | "weights" | "toolFormat" | "templateArg" | "maxThinkingTokens"> | "reward"
>;

export type Conditions = Awaited<ReturnType<typeof conditionsOf>>;

/** The settings of a run, where there is one, with the values given instead. */
function settingsFor(run: OpenCheckpoints | null, given: GivenOptions): Settings {
  const absolute = withAbsolutePaths(given);
  if (run) {
    const changes = changeable().flatMap((name) => (absolute[name] === undefined ? [] : [[name, absolute[name]]]));
    return { ...settingsOf(run.record), ...Object.fromEntries(changes) };
  }
  const {
    temperature = 1,
    context = CONTEXT,
    maxTokens = MAX_TOKENS,
    ...others
  } = withDefaults(changeable(), absolute);
  return { ...others, temperature, context, maxTokens, accuracy: others.accuracy ?? "task", reward: "task" };
}

/** @throws UsageError when there is nothing to play, or no judge for it */
export async function conditionsOf(
  config: EvalConfig,
  given: GivenOptions,
  { run, runs }: Pick<Entrants, "run" | "runs">,
  { log, signal }: { log(text: string): void; signal: AbortSignal },
) {
  const settings = settingsFor(run, given);
  const plain = await loadTask(settings.task, config.taskTimeout);
  if (run && run.record.contents.task !== undefined && run.record.contents.task !== plain.name) {
    throw new UsageError(
      `--task: ${settings.task} is the task ${plain.name}, but the run ${run.name} was trained on ${run.record.contents.task}; name a run of this task with --run, or leave --task out`,
    );
  }
  if (settings.accuracy === "judge") {
    requireClaim(plain, "--accuracy judge");
    requireJudge({ ...config, ...settings }, "--accuracy judge");
  }
  const recorded = run ? recordedForTask(plain, settingsOf(run.record).set) : {};
  const taskOptions = taskOptionsOf(plain, { home: config.home, seed: settings.seed }, recorded, givenForTask(given));
  const all = await scenariosOf(plain, taskOptions, { hub: config });
  const validated = config.fresh ? runs : [];
  const other = validated.find(({ record }) => scenariosFingerprint(all) !== record.contents.scenarios);
  if (other) {
    throw new UsageError(
      `--fresh: these are not the scenarios that ${other.name} was trained on: all of them are fresh`,
    );
  }
  const known = new Set(validated.flatMap(({ record }) => validationScenarios(all, settingsOf(record))));
  const { split = "test", n } = config;
  const ofSplit = all.filter((scenario) => scenario.split === split);
  if (ofSplit.length > 0 && ofSplit.every((scenario) => known.has(scenario))) {
    const played = ofSplit.length === 1 ? "the one" : `all ${ofSplit.length}`;
    throw new UsageError(
      `--fresh leaves none: ${played} of the ${split} split ${ofSplit.length === 1 ? "was" : "were"} in validations\n\
give the task more, or leave --fresh out: the best checkpoint was chosen by them, so that it looks better than it is`,
    );
  }
  const scenarios = chooseScenarios(
    all.filter((scenario) => !known.has(scenario)),
    { split, n, scenario: undefined, seed: settings.seed },
  );
  if (n !== undefined && scenarios.length < n) {
    const fresh = known.size > 0 ? " that no validation has played" : "";
    log(`${scenarios.length} of the ${n} scenarios asked for: there are no more${fresh}`);
  }
  const logs = serverLogs(config.home);
  const { task, servers } = await withServers(settings, plain, settings.task, logs, { log, signal });
  const trainedWith = run?.record.contents.tools;
  if (run && trainedWith !== (servers && toolsFingerprint(servers.tools))) {
    log(`the tools of MCP servers are not those that the run ${run.name} was trained with`);
  }
  return { settings, task, taskOptions, servers, scenarios };
}

export interface Grading {
  readonly grade: GradeRollout;
  /** Tells a judge that hone runs which engine plays at the same time; none any more without one. */
  beside(player: LocalEngine | undefined): void;
  close(): Promise<void>;
}

/**
 * With --accuracy judge a judge of the answers, as the run's reward would use it; its verdicts are kept in the home folder.
 */
export async function openGrading(
  { settings, task, taskOptions }: Conditions,
  config: EvalConfig,
  signal: AbortSignal,
  log: (text: string) => void,
): Promise<Grading> {
  if (settings.accuracy !== "judge") {
    return { grade: gradeOwn, beside: () => undefined, close: async () => undefined };
  }
  const { openHomeJudge } = await import("../judged/files.js");
  const judging = { ...config, ...settings, home: config.home };
  const { judge, local, close } = await openHomeJudge(judging, "--accuracy judge", true, { log, signal });
  try {
    const env = await task.open(taskOptions);
    return {
      grade: await rewardNamed(settings.reward).grade({ judge, signal, onSpent: () => undefined, task, env }),
      beside: (player) => local?.beside(player),
      close: async () => {
        await close();
        await task.close(env);
      },
    };
  } catch (error) {
    await close();
    throw error;
  }
}
