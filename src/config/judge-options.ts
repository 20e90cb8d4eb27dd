/** Options of rewards and judges. Part of options.ts. */
import { hone } from "../util/index.js";
import { choice, flag, inGroup, real, text, whole } from "./option.js";
import { OPENAI_KEY } from "./player-options.js";

const MANY = Number.MAX_SAFE_INTEGER;

export const judgingOptions = {
  ...inGroup("Rewards and judging", {
    reward: text(`The reward that trains, by its name; \`${hone("train")} --help all\` describes each.`, {
      default: "task",
      accepts: "task, ruler, shaped or another reward's name",
    }),
    accuracy: choice(
      ["task", "judge"],
      "Who decides whether a held-out answer is right. judge: answers that the task's own comparison does not accept are sent to the judge.",
      { defaultText: "the reward's: judge with shaped, task otherwise" },
    ),
    judgeUrl: text("The judge's OpenAI-compatible API; used as given, including /v1 if the server has it.", {
      accepts: "a URL",
    }),
    judgeModel: text("The judge's name at --judge-url."),
    judgeKey: text("Key for --judge-url.", { defaultText: OPENAI_KEY }),
    rulerRubric: text("File with a rubric to judge by.", { accepts: "a path", defaultText: "hone's own" }),
    judgeVotes: whole(
      1,
      64,
      "Number of times each group is judged, in a different order each time; the score is the mean.",
      {
        default: 1,
      },
    ),
    judgeInputTokens: whole(
      1000,
      MANY,
      "Estimated tokens of a question to the judge at most; tool results are shortened to fit.",
      { default: 32_000 },
    ),
    judgeTemperature: real(0, 10, "The judge's sampling temperature.", { defaultText: "the server's own" }),
    judgeMaxTokens: whole(1, MANY, "Tokens of the judge's answer at most.", { defaultText: "the server's own" }),
    judgeTimeout: real(0.1, 86_400, "Seconds one request to the judge may take.", { default: 120 }),
    judgePatience: real(0, 86_400, "Seconds to wait for a judge that does not answer; then the command stops.", {
      default: 300,
    }),
    judgeConcurrency: whole(1, 1024, "Concurrent requests to the judge.", { default: 8 }),
    judgeRpm: whole(1, MANY, "Requests to the judge per minute at most.", { defaultText: "no limit" }),
    judgeTpm: whole(1, MANY, "Tokens to and from the judge per minute at most.", { defaultText: "no limit" }),
    judgePrices: text(
      'Price table: JSON, dollars per million tokens, {"MODEL": {"prompt": 1.1, "completion": 4.4}}. It overrides the built-in list prices.',
      { accepts: "a path" },
    ),
    judgeMaxCost: real(0, 1e6, "Highest cost of the judge in a run, in dollars; then it stops.", {
      defaultText: "no cap",
    }),
    judgeCache: flag("Reuse stored verdicts on identical questions (--no-judge-cache asks again).", {
      default: true,
    }),
  }),
};
