/**
 * Every option of hone itself, defined once: its meaning, accepted values, default and environment variable. Tasks with
 * commands define their own (`ownOptions`).
 */
import { inputOptions } from "./input-options.js";
import { judgingOptions } from "./judge-options.js";
import { learnerOptions } from "./learner-options.js";
import { objectiveOptions } from "./objective-options.js";
import { choice, flag, inGroup, list, type Option, text, whole } from "./option.js";
import { packOptions } from "./pack-options.js";
import { playerOptions } from "./player-options.js";
import { runOptions } from "./run-options.js";
import { scenarioOptions } from "./scenario-options.js";

/** In the order in which help and docs/options.md have them. */
export const definitions = {
  ...inputOptions,
  ...scenarioOptions,
  ...playerOptions,
  ...runOptions,
  ...inGroup("Looking at runs", ["rollouts"], {
    runs: list("Runs to show: names, PROJECT/NAME, or folders.", {
      defaultText: "the newest run",
      commands: ["view", "report"],
    }),
    port: whole(0, 65_535, "Port of the page or the API on 127.0.0.1; 0 means any free port.", {
      defaultText: { other: "8000", view: "any free port", "scenarios review": "any free port" },
      commands: ["view", "serve", "scenarios review"],
      first: ["serve"],
    }),
    step: text("Only rollouts of this step or range of steps; replay takes one step.", {
      accepts: "a number, or a range such as 3-9",
      defaultText: { other: "the newest; all with --scenario or --jsonl", replay: "the newest" },
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
    sample: whole(
      0,
      Number.MAX_SAFE_INTEGER,
      "Number of rollouts whose conversations the report includes; the file stays below 30 MB.",
      {
        default: 2000,
        commands: ["report"],
      },
    ),
  }),
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
    compare: list("Two checkpoints of the run that answer side by side: base,best.", {
      defaultText: "none",
      commands: ["chat"],
      first: ["chat"],
    }),
  }),
  ...inGroup("Export", ["export"], {
    to: choice(
      ["peft", "gguf-lora", "gguf", "safetensors", "ollama"],
      "What is written. peft, gguf-lora: the adapter alone. gguf, safetensors, ollama: the model with the adapter in its weights.",
      { first: ["export"] },
    ),
    type: choice(["f16", "bf16", "q8_0", "q4_k_m"], "Weights of what is written; safetensors takes f16 and bf16.", {
      defaultText: "bf16 where the base model has it, else f16",
      first: ["export"],
    }),
    force: flag("Replace the folder of an earlier export or pack.", {
      default: false,
      commands: ["export", "pack"],
      first: ["export", "pack"],
    }),
    baseName: text("Repository of the base model on the Hub, for those who load what is written.", {
      accepts: "ORGANISATION/NAME",
      defaultText: "the run's model, where it came from the Hub",
      first: ["export"],
    }),
    baseFolder: text("Hugging Face folder of the base model, to take tokenizer and config.json from.", {
      accepts: "a path",
      defaultText: "the folder that the run's model was converted from",
    }),
    push: text("Put what is written into this repository of the Hub; one that is not there is made, a private one.", {
      accepts: "ORGANISATION/NAME",
      defaultText: "nothing is sent",
      first: ["export"],
    }),
  }),
  ...packOptions,
  ...inGroup("Objective", ["train"], objectiveOptions),
  ...learnerOptions,
  ...judgingOptions,
  ...inGroup("Output", ["scenarios", "rollout", "rollouts"], {
    show: flag("Print the conversations.", { default: false, first: ["rollout"] }),
    debugJudge: flag("Print the judge's requests and answers, and the scores with their explanations.", {
      default: false,
      commands: ["judge"],
      first: ["judge"],
    }),
    json: flag("Print one JSON object as the last line of stdout; text for people goes to stderr.", {
      ofOutput: true,
      default: false,
      commands: "every",
    }),
  }),
} satisfies Record<string, Option>;
