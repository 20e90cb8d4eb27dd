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
import { hone, UsageError } from "../util/index.js";
import { type LocalJudge, runsHere } from "./local-judge.js";

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
export function requireJudge(
  config: Pick<JudgeConfig, "judgeUrl" | "judgeModel"> & Partial<Pick<JudgeConfig, "judgeMaxCost">>,
  why: string,
): void {
  if (config.judgeModel === undefined) {
    const server = "its name at an OpenAI-compatible server";
    throw new UsageError(
      config.judgeUrl === undefined
        ? `${why} needs a judge: give --judge-model, a model that hone runs here (a GGUF file, or a name that \`${hone("models")}\` lists), or ${server} with ${flagOf("judgeUrl")}`
        : `${why} needs a judge: give --judge-model, ${server}`,
    );
  }
  if (config.judgeUrl !== undefined) checkChatUrl("judge", config.judgeUrl);
  else if (config.judgeMaxCost !== undefined) {
    throw new UsageError("--judge-max-cost: a judge that hone runs here costs nothing; leave it out");
  }
}

/** Requests at once to a server, and seconds for one of them; a judge of this process has all the cores to itself. */
const CONCURRENCY = 8;
const TIMEOUT = { server: 120, here: 3600 };

/**
 * @param before cost so far under the same cap
 * @param local the judge of this process, where the options ask for one
 * @throws UsageError when the options name no judge, or a cap without a price
 */
export function openJudge(
  config: JudgeConfig,
  why: string,
  cache: VerdictCache,
  before: JudgeUsage | undefined,
  log: (text: string) => void,
  local?: LocalJudge,
): Judge {
  requireJudge(config, why);
  if (runsHere(config) && !local) throw new UsageError(`${why} needs a judge behind an API: give --judge-url too`);
  const server = local ? hereOf(local) : serverOf(config);
  const client = new JudgeClient(
    {
      // Of two answers to one question, neither is the better for its dice.
      temperature: config.judgeTemperature ?? (local ? 0 : undefined),
      maxTokens: config.judgeMaxTokens,
      timeout: config.judgeTimeout ?? (local ? TIMEOUT.here : TIMEOUT.server),
      patience: config.judgePatience,
      concurrency: config.judgeConcurrency ?? CONCURRENCY,
      requestsPerMinute: config.judgeRpm,
      tokensPerMinute: config.judgeTpm,
      maxCost: config.judgeMaxCost,
      log,
      ...server,
    },
    before ?? noUsage(),
  );
  return new Judge(client, config.judgeCache ? cache : undefined);
}

/** @throws UsageError for a cap without a price */
function serverOf({ judgeUrl, judgeModel, judgeKey, judgeMaxCost, prices }: JudgeConfig) {
  const [url, model] = [judgeUrl as string, judgeModel as string];
  const price = priceOf(model, prices === undefined ? {} : readPrices(prices));
  if (judgeMaxCost !== undefined && !price) {
    throw new UsageError(`--judge-max-cost: the price of ${model} is not known; say it with --prices`);
  }
  return { url, model, price, key: keyFor(url, judgeKey) };
}

function hereOf(local: LocalJudge) {
  const { name, fingerprint, inputTokens, answerTokens, concurrency } = local.plan;
  return {
    url: local.url,
    model: name,
    key: local.key,
    price: { prompt: 0, completion: 0 },
    maxTokens: answerTokens,
    concurrency,
    own: { fingerprint, inputTokens, answerTokens, during: <T>(work: () => Promise<T>) => local.during(work) },
  };
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
