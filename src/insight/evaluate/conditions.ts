/** The conditions that all players share: scenarios, limits, temperature, and who decides whether an answer is right. */
import { join } from "node:path";
import { serverLogs, toolsFingerprint, withServers } from "../../agent/servers.js";
import { type GivenOptions, type KeptOption, type OptionOf, withDefaults } from "../../core/config/config.js";
import { CONTEXT } from "../../core/config/defaults.js";
import type { LocalEngine } from "../../core/engine/engine.js";
import type { GradeRollout } from "../../core/reward/reward.js";
import { type RunSettings, settingsOf } from "../../core/run/settings.js";
import { openVerdictFile } from "../../core/run/verdicts.js";
import type { ServerPlan } from "../../core/task/servers.js";
import type { AnyTask, PlainOptions, Scenario } from "../../core/task/task.js";
import { gradeOwn } from "../../core/train/grading.js";
import { UsageError } from "../../core/util/errors.js";
import { runsHere } from "../../judge/judging-options.js";
import { requireClaim } from "../../judge/reward/claims.js";
import { requireJudge, VERDICTS_FILE } from "../../judge/reward/judge-options.js";
import type { LocalJudge } from "../../judge/reward/local-judge.js";
import { rewardNamed } from "../../judge/reward/registry.js";
import { withAbsolutePaths } from "../../machine/models/absolute-paths.js";
import type { OpenCheckpoints } from "../../machine/runs/checkpoint-choice.js";
import { scenariosFingerprint, validationScenarios } from "../../scenarios/held-out.js";
import { loadTask, scenariosOf } from "../../scenarios/load.js";
import { givenForTask, recordedForTask, taskOptionsOf } from "../../scenarios/task-options.js";
import { chooseScenarios } from "../rollouts-file.js";
import type { Entrants } from "./entrants.js";
import { changeable, type EvalConfig } from "./eval-options.js";

/** Tokens of a turn, when neither a run nor the user gives a value. */
const MAX_TOKENS = 2048;

type Settings = Pick<
  RunSettings,
  | Exclude<KeptOption & OptionOf<"eval">, "model" | "weights" | "toolFormat" | "templateArg" | "maxThinkingTokens">
  | "reward"
>;

export interface Conditions {
  readonly settings: Settings;
  readonly task: AnyTask;
  readonly taskOptions: PlainOptions;
  readonly servers: ServerPlan | undefined;
  readonly scenarios: readonly Scenario[];
}

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

/** Said where there are fewer scenarios than were asked for: "60 of the 200 scenarios asked for: 50 of 110 test scenarios ..." */
function fewerText(
  playing: number,
  asked: number | undefined,
  split: Scenario["split"],
  { all, known }: { all: readonly Scenario[]; known: ReadonlySet<Scenario> },
): string | undefined {
  if (asked === undefined || playing >= asked) return undefined;
  const ofSplit = all.filter((scenario) => scenario.split === split);
  const leftOut = ofSplit.filter((scenario) => known.has(scenario)).length;
  const why =
    leftOut > 0 ? `${leftOut} of ${ofSplit.length} ${split} scenarios were in validations` : "there are no more";
  return `${playing} of the ${asked} scenarios asked for: ${why}`;
}

/** @throws UsageError when there is nothing to play, or no judge for it */
export async function conditionsOf(
  config: EvalConfig,
  given: GivenOptions,
  { run, runs }: Pick<Entrants, "run" | "runs">,
  { log, signal }: { log(text: string): void; signal: AbortSignal },
): Promise<Conditions> {
  const settings = settingsFor(run, given);
  const plain = await loadTask(settings.task, config.taskTimeout);
  if (run && run.record.contents.task !== undefined && run.record.contents.task !== plain.name) {
    throw new UsageError(
      `--task: ${settings.task} is the task ${plain.name}, but the run ${run.name} was trained on ${run.record.contents.task}`,
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
  const fewer = fewerText(scenarios.length, n, split, { all, known });
  if (fewer !== undefined) log(fewer);
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
  const { cache, close } = openVerdictFile(join(config.home, VERDICTS_FILE));
  let local: LocalJudge | undefined;
  try {
    const judging = { ...config, ...settings, home: config.home };
    if (runsHere(judging)) {
      const { LocalJudge, planLocalJudge } = await import("../../judge/reward/local-judge.js");
      local = await LocalJudge.open(await planLocalJudge(judging, log, signal), config, true, log);
    }
    const judge = (await import("../../judge/reward/judge.js")).openJudge(
      judging,
      "--accuracy judge",
      cache,
      undefined,
      log,
      local,
    );
    const env = await task.open(taskOptions);
    return {
      grade: await (await rewardNamed(settings.reward)).grade({ judge, signal, onSpent: () => undefined, task, env }),
      beside: (player) => local?.beside(player),
      close: async () => {
        await local?.close();
        await task.close(env);
        close();
      },
    };
  } catch (error) {
    await local?.close();
    close();
    throw error;
  }
}
