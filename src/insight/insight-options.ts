/** Options of what looks at runs. */
import { declareOptions } from "../core/config/config.js";
import { flag, inGroup, list, text, whole } from "../core/config/option.js";

const insightOptions = declareOptions({
  ...inGroup("Looking at runs", ["rollouts"], {
    runs: list("Runs to show: names, PROJECT/NAME, or folders.", {
      defaultText: "the newest run",
      commands: ["view", "report"],
    }),
    port: whole(0, 65_535, "Port on 127.0.0.1; 0 is any free one.", {
      defaultText: { other: "8000", view: "any free port", "scenarios review": "any free port" },
      commands: ["view", "serve", "scenarios review"],
      first: ["serve"],
    }),
    step: text("Only rollouts of these steps; replay takes one step, or all.", {
      accepts: "a number, or a range such as 3-9",
      defaultText: { other: "the newest; all with --scenario or --jsonl", replay: "the first and the newest" },
      commands: ["rollouts", "replay"],
      first: ["replay"],
    }),
    failed: flag("Only rollouts that did not solve their scenario.", { default: false }),
    end: text("Only rollouts with this end: answered, turn_limit, open_call, ...", { defaultText: "all" }),
    jsonl: text("Trajectory file to write the rollouts to; other commands read it.", {
      accepts: "a path",
      defaultText: "none",
    }),
    csv: flag("Print comma-separated values: a line per step, a column per figure.", {
      default: false,
      commands: ["metrics"],
    }),
    sample: whole(0, Number.MAX_SAFE_INTEGER, "Rollouts whose conversations the report includes.", {
      default: 2000,
      commands: ["report"],
    }),
  }),
});

type Own = typeof insightOptions;
declare module "../core/config/config.js" {
  interface OptionTable extends Own {}
}
