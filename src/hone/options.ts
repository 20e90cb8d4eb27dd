/** Options of `serve`, `chat`, and of what is printed, after those of all rooms: the order in which help and docs/options.md have them. */
import "../trainer/options.js";
import { declareOptions } from "../core/config/config.js";
import { flag, inGroup, list, text } from "../core/config/option.js";

export const programOptions = declareOptions({
  ...inGroup("Serving and chatting", ["serve", "chat"], {
    subject: text("Which model: a run's name, PROJECT/NAME or folder; or a model, as --model names it.", {
      defaultText: "the newest run that has finished a step",
      first: ["serve", "chat"],
    }),
    apiKey: text("Key that clients of the API have to send.", {
      secret: true,
      defaultText: "none is asked for",
      commands: ["serve"],
      first: ["serve"],
    }),
    compare: list("Two checkpoints to answer side by side: base,best.", {
      defaultText: "none",
      commands: ["chat"],
      first: ["chat"],
    }),
  }),
  ...inGroup("Output", ["scenarios", "rollout", "rollouts"], {
    show: flag("Print the conversations.", { default: false, first: ["rollout"] }),
    debugJudge: flag("Print the judge's requests, answers and explanations.", {
      default: false,
      commands: ["judge"],
      first: ["judge"],
    }),
    json: flag("Print one JSON object as the last line of stdout; other text goes to stderr.", {
      ofOutput: true,
      default: false,
      commands: "every",
    }),
  }),
});

type Own = typeof programOptions;
declare module "../core/config/config.js" {
  interface OptionTable extends Own {}
}
