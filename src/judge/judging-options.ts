/** Options of rewards and judges. Part of options.ts. */
import { type Config, declareOptions } from "../core/config/config.js";
import { choice, flag, inGroup, list, real, text, whole } from "../core/config/option.js";
import { hone } from "../core/util/program.js";
import { OPENAI_KEY } from "../machine/play/player-options.js";

const MANY = Number.MAX_SAFE_INTEGER;

const judgingOptions = declareOptions({
  ...inGroup("Rewards and judging", ["judge", "train", "eval", "scenarios generate"], {
    reward: text(`The reward that trains, by its name; \`${hone("train")} --help all\` describes each.`, {
      default: "task",
      accepts: "task, ruler, shaped or another reward's name",
      commands: ["train"],
      first: ["train"],
      run: "identity",
    }),
    accuracy: choice(
      ["task", "judge"],
      "Who decides whether a held-out answer is right. judge: it is asked where the task does not accept one.",
      {
        defaultText: "the reward's: judge with shaped, task otherwise",
        commands: ["train", "eval"],
        run: "identity",
        determined: true,
      },
    ),
    judgeUrl: text("The judge's OpenAI-compatible API, with /v1 if the server has it.", {
      accepts: "a URL",
      defaultText: "none: hone runs --judge-model itself",
      first: ["judge", "scenarios generate"],
      run: "changeable",
      library: ["ruler"],
    }),
    judgeModel: text(
      `The judge: its name at --judge-url, or without that a model as for --model, which hone runs in q8_0. scenarios generate: the model that writes and checks questions.`,
      {
        first: ["judge", "train", "scenarios generate"],
        run: "identity",
        file: true,
        library: ["ruler"],
      },
    ),
    moreJudges: list(
      "Further judges that vote: NAME at --judge-url, or NAME@URL. The median of scores counts, and the majority. --judge-key is sent to --judge-url alone.",
      {
        accepts: "names",
        defaultText: "none",
        first: ["judge"],
        run: "identity",
        library: ["ruler"],
      },
    ),
    judgeKey: text("Key for --judge-url.", {
      secret: true,
      defaultText: OPENAI_KEY,
      first: ["judge"],
      library: ["ruler"],
    }),
    rulerRubric: text("File with a rubric to judge by.", {
      accepts: "a path",
      defaultText: "hone's own",
      commands: ["judge", "train"],
      first: ["judge"],
      run: "changeable",
      file: true,
      library: ["ruler"],
    }),
    judgeVotes: whole(1, 64, "Times that a group is judged, each in another order; the score is the mean.", {
      default: 1,
      commands: ["judge", "train"],
      first: ["judge"],
      run: "identity",
      library: ["ruler"],
    }),
    correctness: flag("Decide whether answers are right (--accuracy judge) instead of scoring.", {
      default: false,
      commands: ["judge"],
      first: ["judge"],
    }),
    agreement: flag(
      "Measure the judge against the rewards that the rollouts have, and its bias for place and length.",
      { default: false, commands: ["judge"], first: ["judge"] },
    ),
    judgeInputTokens: whole(
      1000,
      MANY,
      "Tokens of a question to the judge at most (estimated); tool results are shortened to fit.",
      { default: 32_000, commands: ["judge", "train"], run: "identity", library: ["ruler"] },
    ),
    judgeTemperature: real(0, 10, "The judge's sampling temperature.", {
      defaultText: "the server's own; 0 for a judge that hone runs",
      run: "identity",
      library: ["ruler"],
    }),
    judgeMaxTokens: whole(1, MANY, "Tokens of the judge's answer at most.", {
      defaultText: "the server's own; 2048 for a judge that hone runs",
      run: "identity",
      library: ["ruler"],
    }),
    judgeTimeout: real(0.1, 86_400, "Seconds one request to the judge may take.", {
      defaultText: "120; 3600 for a judge that hone runs",
      library: ["ruler"],
    }),
    judgePatience: real(0, 86_400, "Seconds to wait for a judge that does not answer.", {
      default: 300,
      library: ["ruler"],
    }),
    judgeConcurrency: whole(1, 1024, "Concurrent requests to the judge.", {
      defaultText: "8; 2 for a judge that hone runs",
      first: ["judge"],
      library: ["ruler"],
    }),
    prices: text(
      'Price table of the judge and of players behind an API: JSON, dollars per million tokens, {"NAME": {"prompt": 1.1, "completion": 4.4}}. Overrides the built-in ones.',
      { accepts: "a path", library: ["ruler"] },
    ),
    judgeMaxCost: real(0, 1e6, "Highest cost of the judge in a run, in dollars; then it stops.", {
      defaultText: "no cap",
      first: ["judge", "scenarios generate"],
      library: ["ruler"],
    }),
    judgeCache: flag("Reuse stored verdicts on identical questions (--no-judge-cache asks again).", {
      default: true,
      commands: ["judge"],
      library: ["ruler"],
    }),
  }),
});

type Own = typeof judgingOptions;
declare module "../core/config/config.js" {
  interface OptionTable extends Own {}
}

/** Whether the options ask hone to run the judge itself: they name a model, and no server. */
export const runsHere = ({ judgeUrl, judgeModel }: Pick<Config, "judgeUrl" | "judgeModel">): boolean =>
  judgeUrl === undefined && judgeModel !== undefined;
