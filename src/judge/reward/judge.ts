/** Creates a judge from options. */

import type { JudgeUsage, VerdictCache } from "../../core/run/verdicts.js";
import { type AnyTask, toolSchema } from "../../core/task/task.js";
import { UsageError } from "../../core/util/errors.js";
import { keyFor } from "../../serve/openai/server.js";
import { Cap, noUsage } from "../budget.js";
import { JudgeClient } from "../client.js";
import { Judge } from "../judge.js";
import { runsHere } from "../judging-options.js";
import { priceOf, readPrices } from "../prices.js";
import type { RulerSettings } from "../ruler.js";
import { type FurtherJudge, type JudgeConfig, moreJudges, type RulerConfig, requireJudge } from "./judge-options.js";
import type { LocalJudge } from "./local-judge.js";

/** Requests at once to a server, and seconds for one of them; a judge of this process has all the cores to itself. */
const CONCURRENCY = 8;
const TIMEOUT = { server: 120, here: 3600 };

/**
 * The judge, or several that vote.
 * @param before cost so far under the same cap
 * @param local the judge of this process, where the options ask for one
 * @throws UsageError when the options name no judge, or a cap without a price
 */
export function openJudge(
  config: JudgeConfig,
  why: string,
  cache: VerdictCache | undefined,
  before: JudgeUsage | undefined,
  log: (text: string) => void,
  local?: LocalJudge,
): Judge {
  requireJudge(config, why);
  if (runsHere(config) && !local) throw new UsageError(`${why} needs a judge behind an API: give --judge-url too`);
  const first = { name: config.judgeModel as string, model: config.judgeModel as string, url: config.judgeUrl ?? "" };
  const all = [first, ...moreJudges(config)];
  const cap = new Cap(config.judgeMaxCost);
  const clients = all.map((one, i) => {
    const here = i === 0 ? local : undefined;
    const server = here ? hereOf(here) : serverOf(config, one);
    const usage = i === 0 ? before : undefined;
    return new JudgeClient({ ...settingsOf(config, here !== undefined, log), ...server, cap }, usage ?? noUsage());
  });
  const judges = all.slice(1).map(({ name }, i) => new Judge(clients[i + 1] as JudgeClient, cache, name));
  return new Judge(clients[0] as JudgeClient, cache, first.name, judges);
}

const settingsOf = (config: JudgeConfig, here: boolean, log: (text: string) => void) => ({
  // Of two answers to one question, neither is the better for its dice.
  temperature: config.judgeTemperature ?? (here ? 0 : undefined),
  maxTokens: config.judgeMaxTokens,
  timeout: config.judgeTimeout ?? (here ? TIMEOUT.here : TIMEOUT.server),
  patience: config.judgePatience,
  concurrency: config.judgeConcurrency ?? CONCURRENCY,
  log,
});

/**
 * The key of --judge-key is sent to the server of --judge-url alone.
 * @throws UsageError for a cap without a price
 */
function serverOf(
  { judgeUrl, judgeKey, judgeMaxCost, prices }: JudgeConfig,
  { model, url }: Pick<FurtherJudge, "model" | "url">,
) {
  const price = priceOf(model, prices === undefined ? {} : readPrices(prices));
  if (judgeMaxCost !== undefined && !price) {
    throw new UsageError(`--judge-max-cost: the price of ${model} is not known; say it with --prices`);
  }
  return { url, model, price, key: keyFor(url, url === judgeUrl ? judgeKey : undefined) };
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
    own: { fingerprint, inputTokens, answerTokens, during: local.during },
  };
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
