/** The base models of `yarn learning`. */
import { flagOf, type OptionName } from "../../src/config/index.js";
import { untaught } from "../../src/tasks/email/commands/untaught.js";
import { HoneError } from "../../src/util/errors.js";

/** Options of `yarn train`, with their values. */
export type Settings = Readonly<Record<string, string>>;

export interface Base {
  readonly name: string;
  /** Value of `--model`; a path is relative to the package's folder. */
  readonly model: string;
  /** Value of `--task`, a path relative to the package's folder; without it, the email task. */
  readonly task?: string;
  /** Settings of every run and control, in addition to the model. */
  readonly settings: Settings;
  /** Evaluations of a run. Only the default base has all of them, since they concern its skill. */
  readonly evaluations: readonly ("held-out" | "greedy" | "unseen-names")[];
  /** The evaluated checkpoint of a run, in addition to the base; of a control it is always the latest. */
  readonly checkpoint: "best" | "latest";
  /** Suffix of the results file and of the drawing for the docs. */
  readonly results: string;
}

const bases: readonly Base[] = [
  {
    name: "tiny",
    model: "tiny",
    settings: {},
    evaluations: ["held-out", "greedy", "unseen-names"],
    checkpoint: "best",
    results: "learning",
  },
  {
    name: "untaught",
    model: untaught.model,
    settings: Object.fromEntries(
      Object.entries(untaught.settings).map(([name, value]) => [flagOf(name as OptionName), `${value}`]),
    ),
    evaluations: ["held-out"],
    // The experiment asks whether a run keeps its success to the end.
    checkpoint: "latest",
    results: "untaught",
  },
  {
    name: "word-sums",
    model: "models/word-sums/word-sums.gguf",
    task: "examples/word-sums.ts",
    settings: {
      "--set": "scenarios=2000",
      "--max-turns": "4",
      "--on-tool-error": "stop",
      "--steps": "20",
      "--groups-per-step": "16",
      "--epochs": "4",
      "--learning-rate": "2e-3",
      "--final-learning-rate": "5e-4",
      "--lora-alpha": "64",
      "--temperature": "0.5",
      "--validate-every": "5",
    },
    evaluations: ["held-out"],
    checkpoint: "latest",
    results: "word-sums",
  },
];

/** @throws HoneError for an unknown name */
export function baseOf(name: string): Base {
  const base = bases.find((each) => each.name === name);
  if (!base)
    throw new HoneError(`--base: there is no base ${name}; there are ${bases.map((one) => one.name).join(", ")}`);
  return base;
}
