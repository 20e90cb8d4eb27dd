/** Which options of a run are not the defaults, and how they are typed: what its settings begin with, and what the next command repeats. */
import { keptOptions, type OptionName, options } from "../../core/config/config.js";
import { CONTEXT, DEFAULT_MODEL } from "../../core/config/defaults.js";
import type { Size } from "../../core/config/sizes.js";
import { type ObjectiveName, objectiveOf } from "../../core/learn/objectives.js";
import type { Device, RunRecord } from "../../core/run/records.js";
import type { PlainOptions } from "../../core/task/task.js";
import { typed } from "../typed.js";

/** What the options of the email task are without `--set`: it is the default task, and they are kept resolved. */
export const EMAIL_DEFAULTS: PlainOptions = { rank: "date", inbox: "system" };

const SIZES: readonly Size[] = ["tiny", "small", "large"];

const sized = (name: OptionName, size: Size): unknown => options[name].bySize?.[size] ?? options[name].bySize?.small;

/**
 * A run has no number of parameters: its size is the one whose defaults most of its options have.
 *
 * @param devices What played it, which says how long a context the model was trained with.
 * @returns by option " --steps 3"
 */
export function givenIn(
  { options: kept }: Pick<RunRecord, "options">,
  devices: readonly Device[] = [],
): Record<string, string> {
  const names: readonly OptionName[] = keptOptions();
  const isSame = (name: string, value: unknown) => JSON.stringify(kept[name]) === JSON.stringify(value);
  const fits = (size: Size) => names.filter((name) => options[name].bySize && isSame(name, sized(name, size))).length;
  const size = [...SIZES].sort((a, b) => fits(b) - fits(a))[0] as Size;
  const objective = objectiveOf((kept.loss ?? options.loss.default) as ObjectiveName);
  const determined: Readonly<Record<string, unknown>> = {
    model: DEFAULT_MODEL,
    context: Math.min(CONTEXT, ...devices.flatMap(({ trainedContext: one }) => (typeof one === "number" ? [one] : []))),
    temperature: 1,
    advantages: objective.advantages,
    clipLow: objective.clipLow ?? undefined,
    clipHigh: objective.clipHigh,
    // As the option's own text says.
    accuracy: kept.reward === "shaped" ? "judge" : "task",
    ...(isSame("learningRate", sized("learningRate", size)) ? {} : { finalLearningRate: kept.learningRate }),
  };
  const changed = names.filter(
    (name) =>
      kept[name] !== undefined &&
      kept[name] !== null &&
      !isSame(name, determined[name] ?? sized(name, size) ?? options[name].default),
  );
  const usual = kept.task === "email" ? EMAIL_DEFAULTS : {};
  const set = Object.entries(kept.set ?? {}).filter(([name, value]) => value !== usual[name]);
  const ofTask: OptionName[] = set.length === 0 ? [] : ["set"];
  const given = { ...kept, set: Object.fromEntries(set) };
  return Object.fromEntries([...changed, ...ofTask].map((name) => [name, typed(given, [name])]));
}
