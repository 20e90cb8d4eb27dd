/** Creates a judge from options. */
import { existsSync, readFileSync } from "node:fs";
import { type Config, flagOf } from "../config/config.js";
import { type JudgeUsage, noUsage } from "../judge/budget.js";
import type { VerdictCache } from "../judge/cache.js";
import { JudgeClient } from "../judge/client.js";
import { Judge } from "../judge/judge.js";
import { priceOf, readPrices } from "../judge/prices.js";
import { defaultRubric, type RulerSettings } from "../judge/ruler.js";
import { checkChatUrl, keyFor } from "../openai/server.js";
import { type AnyTask, toolSchema } from "../tasks/task.js";
import { UsageError } from "../util/errors.js";
import { hone } from "../util/program.js";
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
  | "moreJudges"
  | "judgeKey"
  | "judgeTimeout"
  | "judgePatience"
  | "judgeConcurrency"
  | "prices"
  | "judgeMaxCost"
>;
/** How it judges groups. */
export type RulerConfig = JudgeConfig & Pick<Config, "judgeVotes" | "judgeInputTokens" | "rulerRubric">;

/** @throws UsageError when the options name no judge; `why` says what needs one */
export function requireJudge(
  config: Pick<JudgeConfig, "judgeUrl" | "judgeModel"> & Partial<Pick<JudgeConfig, "judgeMaxCost" | "moreJudges">>,
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
  const more = moreJudges(config);
  if (config.judgeUrl !== undefined) checkChatUrl("judge", config.judgeUrl);
  else if (more.length === 0 && config.judgeMaxCost !== undefined) {
    throw new UsageError("--judge-max-cost: a judge that hone runs here costs nothing; leave it out");
  }
}

/** Requests at once to a server, and seconds for one of them; a judge of this process has all the cores to itself. */
const CONCURRENCY = 8;
const TIMEOUT = { server: 120, here: 3600 };

/** A judge beside the first. */
interface FurtherJudge {
  /** As it was given. */
  readonly name: string;
  readonly model: string;
  readonly url: string;
}

/**
 * The judges of `--more-judges`: NAME, at the first one's server, or NAME@URL.
 * @throws UsageError for one without an address, and for one that is named twice
 */
function moreJudges(config: Pick<JudgeConfig, "judgeUrl" | "judgeModel"> & Partial<Pick<JudgeConfig, "moreJudges">>) {
  const { judgeUrl, judgeModel, moreJudges: names = [] } = config;
  const known = new Set([judgeUrl === undefined ? undefined : `${judgeModel}@${judgeUrl}`]);
  return names.map((name): FurtherJudge => {
    const at = name.search(/@https?:\/\//);
    const [model, url] = at < 0 ? [name, judgeUrl] : [name.slice(0, at), name.slice(at + 1)];
    if (url === undefined || model === "") {
      throw new UsageError(`--more-judges ${name}: give each as NAME@URL, or as NAME of one at --judge-url`);
    }
    checkChatUrl("judge", url);
    const whole = `${model}@${url}`;
    if (known.has(whole)) {
      throw new UsageError(`--more-judges ${name}: it votes already; --judge-votes asks a judge several times`);
    }
    known.add(whole);
    return { name, model, url };
  });
}

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
  const clients: JudgeClient[] = [];
  for (const [i, one] of all.entries()) {
    const here = i === 0 ? local : undefined;
    const server = here ? hereOf(here) : serverOf(config, one);
    const others = all.length === 1 ? undefined : () => committedBut(clients, i);
    const usage = i === 0 ? before : undefined;
    clients.push(
      new JudgeClient({ ...settingsOf(config, here !== undefined, log), ...server, others }, usage ?? noUsage()),
    );
  }
  const judges = all.slice(1).map(({ name }, i) => new Judge(clients[i + 1] as JudgeClient, cache, name));
  return new Judge(clients[0] as JudgeClient, cache, first.name, judges);
}

/** Dollars of the cap that all but one of the judges have spent or reserved. */
const committedBut = (clients: readonly JudgeClient[], but: number) =>
  clients.reduce((sum, { committed }, i) => sum + (i === but ? 0 : committed), 0);

const settingsOf = (config: JudgeConfig, here: boolean, log: (text: string) => void) => ({
  // Of two answers to one question, neither is the better for its dice.
  temperature: config.judgeTemperature ?? (here ? 0 : undefined),
  maxTokens: config.judgeMaxTokens,
  timeout: config.judgeTimeout ?? (here ? TIMEOUT.here : TIMEOUT.server),
  patience: config.judgePatience,
  concurrency: config.judgeConcurrency ?? CONCURRENCY,
  maxCost: config.judgeMaxCost,
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
