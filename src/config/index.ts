/** Options: definitions, defaults, where values come from; and the definition of a command. */
export { type Command, type CommandCode, type CommandIo, defineCommand } from "./command.js";
export {
  type Config,
  type ConfigOf,
  chosen,
  type DeterminedOption,
  fileOptions,
  flagOf,
  type GivenOptions,
  givenByProgram,
  type KeptOption,
  keptOptions,
  type LibraryOption,
  libraryOptions,
  type OptionName,
  type OptionOf,
  options,
  optionsOf,
  ownOptions,
  type ProgramOption,
  programOptions,
  readGiven,
  sizedDefault,
  sizedDefaults,
  withDefaults,
} from "./config.js";
export { BATCH, CONTEXT, DEFAULT_MODEL, ROLLOUTS_AT_ONCE } from "./defaults.js";
export { declare, readHelp } from "./help.js";
export { downloadOptions } from "./input-options.js";
export {
  type AdvantageEstimator,
  type ImportanceMode,
  type Objective,
  type ObjectiveName,
  objectiveOf,
} from "./objectives.js";
export { choice, date, flag, inGroup, list, readRange, readSize, text, whole } from "./option.js";
export { type Preset, presets } from "./presets.js";
export { refuseRemovedCommand, removedOption } from "./removed.js";
export { sizeOf } from "./sizes.js";
export { typed } from "./typed.js";
