/** The definition of a command: its options (from the one schema), an example, and a function that does the work. */
import {
  type Config,
  type ConfigOf,
  firstOptionsOf,
  type GivenOptions,
  type OptionName,
  type OptionOf,
  optionsOf,
} from "../core/config/config.js";
import type { Option } from "../core/config/option.js";
import type { ProgressLine } from "../insight/report/progress-line.js";

/** Output and input of a running command. */
export interface CommandIo {
  /**
   * One line (or several) for people: stdout, or stderr under `--json`. Text from outside may be in it: characters that a
   * terminal obeys are taken out.
   */
  log(text: string): void;
  /** As `log`, for text that hone itself has styled: its colours stay. */
  show(text: string): void;
  /** Aborted by the first Ctrl-C or SIGTERM: finish what must be finished and return or throw. */
  readonly signal: AbortSignal;
  /** The stream of the output. */
  readonly stream: NodeJS.WriteStream;
  /** What is redrawn below the output until the command ends, or clears it. */
  readonly progress: ProgressLine;
  /** The given options, for commands whose defaults depend on more than the option. */
  readonly given: GivenOptions;
}

/** The JSON object that `--json` prints as the last line of stdout. */
export type CommandResult = object;

/** What a command's own file defines. */
export interface CommandCode<N extends string = string> {
  readonly name: N;
  readonly options: readonly OptionName[];
  /** The common options, which `--help` shows; undefined: it shows all. */
  readonly first: readonly OptionName[] | undefined;
  /** Options that the command requires. */
  readonly required: readonly OptionName[];
  /** An option that is written without its flag, for example a file name. */
  readonly positional: OptionName | undefined;
  /** Text of its help after the options, which explains its output. */
  readonly epilogue: string | undefined;
  /** Whether it takes options from the current folder's config file, which are about a project's own task. */
  readonly configFile: boolean;
  run(config: Config, io: CommandIo): Promise<CommandResult>;
}

/** A command with what the list of commands says of it. */
export interface Command extends CommandCode {
  /** One line. */
  readonly summary: string;
  /** A line that works unchanged after `yarn hone build-db`. */
  readonly example: string;
}

type Own = Readonly<Record<string, Option>>;

interface CommandDefinition<
  N extends string,
  L extends string,
  R extends OptionOf<L> | (keyof D & string),
  D extends Own,
> {
  name: N;
  /** Another command, whose options it takes. */
  like?: L;
  /** Options of the command's own room, from `ownOptions`. */
  own?: D;
  required?: readonly R[];
  positional?: OptionOf<NoInfer<L>>;
  epilogue?: string;
  configFile?: boolean;
  run(
    config: Config<OptionOf<L>> & ConfigOf<D> & { readonly [N in R]-?: NonNullable<(Config & ConfigOf<D>)[N]> },
    io: CommandIo,
  ): Promise<CommandResult>;
}

/** A command whose `run` sees only the options that name it, with the required ones present. */
export function defineCommand<
  const N extends string,
  const L extends string = N,
  const R extends OptionOf<L> | (keyof D & string) = never,
  const D extends Own = Record<never, never>,
>(definition: CommandDefinition<N, L, R, D>): CommandCode<N> {
  const { name, like = name, own = {}, required = [], positional, run } = definition;
  const { epilogue, configFile = true } = definition;
  const ownNames = Object.keys(own) as OptionName[];
  const first = [...ownNames.filter((one) => (own as Own)[one]?.first.includes(name)), ...firstOptionsOf(name)];
  return {
    name,
    epilogue,
    configFile,
    options: [...optionsOf<string>(like), ...ownNames],
    first: first.length > 0 ? first : undefined,
    required: required as readonly OptionName[],
    positional: positional as OptionName | undefined,
    run: run as unknown as CommandCode["run"],
  };
}
