/** The models that `yarn learning` starts from. */
import { flagOf, type OptionName } from "../../src/config/index.js";
import { untaught } from "../../src/tasks/email/commands/untaught.js";
import { HoneError } from "../../src/util/errors.js";

/** Options of `yarn train`, with their values. */
export type Settings = Readonly<Record<string, string>>;

export interface Base {
  readonly name: string;
  /** What `--model` is given; a path is one from the package's folder. */
  readonly model: string;
  /** Of every run and control, beside the model. */
  readonly settings: Settings;
  /** Of a run that is evaluated: the others are left to the default base, whose skill they ask about. */
  readonly evaluations: readonly ("held-out" | "greedy" | "unseen-names")[];
  /** Of a run, besides the base; of a control it is always the latest. */
  readonly checkpoint: "best" | "latest";
  /** Of a results file and of the page's drawing. */
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
    // Whether a run holds to its end is what was in question.
    checkpoint: "latest",
    results: "untaught",
  },
];

/** @throws HoneError where there is none of the name */
export function baseOf(name: string): Base {
  const base = bases.find((each) => each.name === name);
  if (!base)
    throw new HoneError(`--base: there is no base ${name}; there are ${bases.map((one) => one.name).join(", ")}`);
  return base;
}
