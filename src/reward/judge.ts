/** Creates a judge from options. */
import { existsSync, readFileSync } from "node:fs";
import { type Config, flagOf } from "../config/index.js";
import {
  defaultRubric,
  Judge,
  JudgeClient,
  type JudgeUsage,
  noUsage,
  priceOf,
  type RulerSettings,
  readPrices,
  type VerdictCache,
} from "../judge/index.js";
import { checkChatUrl, keyFor } from "../openai/index.js";
import { type AnyTask, toolSchema } from "../tasks/index.js";
import { UsageError } from "../util/index.js";

/** In the home folder: verdicts that belong to no run. */
export const VERDICTS_FILE = "verdicts.sqlite";

/** The judge, and access to it. */
export type JudgeConfig = Pick<
  Config,
  | "judgeModel"
  | "judgeTemperature"
  | "judgeMaxTokens"
  | "judgeUrl"
  | "judgeKey"
  | "judgeTimeout"
  | "judgePatience"
  | "judgeConcurrency"
  | "judgeRpm"
  | "judgeTpm"
  | "prices"
  | "judgeMaxCost"
  | "judgeCache"
>;
/** How it judges groups. */
export type RulerConfig = JudgeConfig & Pick<Config, "judgeVotes" | "judgeInputTokens" | "rulerRubric" | "debugJudge">;

/** @throws UsageError when the options name no judge; `why` says what needs one */
export function requireJudge(config: Pick<JudgeConfig, "judgeUrl" | "judgeModel">, why: string): void {
  const missing = (["judgeUrl", "judgeModel"] as const).filter((name) => config[name] === undefined).map(flagOf);
  if (missing.length > 0) {
    throw new UsageError(
      `${why} needs a judge: give ${missing.join(" and ")} (any OpenAI-compatible server, also one on this machine)`,
    );
  }
  checkChatUrl("judge", config.judgeUrl as string);
}

/**
 * @param before cost so far under the same cap
 * @throws UsageError when the options name no judge, or a cap without a price
 */
export function openJudge(
  config: JudgeConfig,
  why: string,
  cache: VerdictCache,
  before: JudgeUsage | undefined,
  log: (text: string) => void,
): Judge {
  requireJudge(config, why);
  const model = config.judgeModel as string;
  const url = config.judgeUrl as string;
  const own = config.prices === undefined ? {} : readPrices(config.prices);
  const price = priceOf(model, own);
  if (config.judgeMaxCost !== undefined && !price) {
    throw new UsageError(`--judge-max-cost: the price of ${model} is not known; say it with --prices`);
  }
  const client = new JudgeClient(
    {
      url,
      model,
      key: keyFor(url, config.judgeKey),
      temperature: config.judgeTemperature,
      maxTokens: config.judgeMaxTokens,
      timeout: config.judgeTimeout,
      patience: config.judgePatience,
      concurrency: config.judgeConcurrency,
      requestsPerMinute: config.judgeRpm,
      tokensPerMinute: config.judgeTpm,
      price,
      maxCost: config.judgeMaxCost,
      log,
    },
    before ?? noUsage(),
  );
  return new Judge(client, config.judgeCache ? cache : undefined);
}

/** The rubric's text. Throws UsageError when the file is missing or empty. */
export function rubricOf(file: string | undefined): string {
  if (file === undefined) return defaultRubric;
  if (!existsSync(file)) throw new UsageError(`--ruler-rubric: there is no file ${file}`);
  const text = readFileSync(file, "utf8").trim();
  if (text === "") throw new UsageError(`--ruler-rubric: ${file} is empty`);
  return text;
}

export function rulerSettings(
  config: Pick<RulerConfig, "judgeVotes" | "judgeInputTokens">,
  rubric: string,
  task: AnyTask,
  seed: number,
): RulerSettings {
  return {
    rubric,
    votes: config.judgeVotes,
    seed,
    inputTokens: config.judgeInputTokens,
    tools: task.tools.map((tool) => toolSchema(tool)),
  };
}
