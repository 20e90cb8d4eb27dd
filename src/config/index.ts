/** Options: definitions, defaults, where values come from; and the definition of a command. */
export { type Command, type CommandIo, defineCommand } from "./command.js";
export {
  type Config,
  type ConfigOf,
  chosen,
  flagOf,
  type GivenOptions,
  givenByProgram,
  type OptionName,
  options,
  ownOptions,
  readGiven,
  withDefaults,
} from "./config.js";
export { BATCH, bySize, CONTEXT, DEFAULT_MODEL, type Preset, presets, ROLLOUTS_AT_ONCE, sizeOf } from "./defaults.js";
export { declare, optionsOf, readHelp } from "./help.js";
export { objectiveOptionNames } from "./objective-options.js";
export {
  type AdvantageEstimator,
  type ImportanceMode,
  type Objective,
  type ObjectiveName,
  objectiveOf,
} from "./objectives.js";
export { choice, date, flag, inGroup, list, readRange, readSize, text, whole } from "./option.js";
export { oldNamesOf, presentNames, withPresentNames } from "./renamed.js";
