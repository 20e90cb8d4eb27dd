/** Options of a judge, checked before one is opened: nothing of a judge is loaded with them. */
import { type Config, flagOf } from "../../core/config/config.js";
import { UsageError } from "../../core/util/errors.js";
import { hone } from "../../core/util/program.js";
import { checkChatUrl, shownUrl } from "../../serve/openai/server.js";

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

/** A judge beside the first. */
export interface FurtherJudge {
  /** As it was given, without the query of its URL: that may have a key in it. */
  readonly name: string;
  readonly model: string;
  readonly url: string;
}

/**
 * The judges of `--more-judges`: NAME, at the first one's server, or NAME@URL.
 * @throws UsageError for one without an address, and for one that is named twice
 */
export function moreJudges(
  config: Pick<JudgeConfig, "judgeUrl" | "judgeModel"> & Partial<Pick<JudgeConfig, "moreJudges">>,
) {
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
    return { name: at < 0 ? name : `${model}@${shownUrl(url)}`, model, url };
  });
}
