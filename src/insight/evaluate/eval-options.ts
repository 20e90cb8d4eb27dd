/** The options of an evaluation. */
import { type Config, type KeptOption, keptOptions, type OptionOf, optionsOf } from "../../core/config/config.js";

type Changeable = KeptOption & OptionOf<"eval">;

/** Settings of a run that an evaluation may override. */
export const changeable = (): readonly Changeable[] =>
  keptOptions().filter((name): name is Changeable => (optionsOf("eval") as readonly string[]).includes(name));

export type EvalConfig = Pick<Config, OptionOf<"eval">>;
