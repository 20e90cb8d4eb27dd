/** The definition of a command: its options (from the one schema), an example, and a function that does the work. */
import type { Config, ConfigOf, GivenOptions, OptionName } from "./config.js";
import type { Option } from "./option.js";

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
  /** The stream of the output, for progress that redraws itself; check `isTTY` first. */
  readonly stream: NodeJS.WriteStream;
  /** The given options, for commands whose defaults depend on more than the option. */
  readonly given: GivenOptions;
}

/** The JSON object that `--json` prints as the last line of stdout. */
export type CommandResult = object;

export interface Command {
  readonly name: string;
  /** One line. */
  readonly summary: string;
  /** A line that works unchanged after `yarn hone build-db`. */
  readonly example: string;
  readonly options: readonly OptionName[];
  /** The common options, which `--help` shows; undefined: it shows all. */
  readonly first: readonly OptionName[] | undefined;
  /** Options that the command requires. */
  readonly required: readonly OptionName[];
  /** An option that is written without its flag, for example a file name. */
  readonly positional: OptionName | undefined;
  /** Text of its help after the options, which explains its output. */
  readonly epilogue: string | undefined;
  run(config: Config, io: CommandIo): Promise<CommandResult>;
}

type Own = Readonly<Record<string, Option>>;

interface CommandDefinition<K extends OptionName, R extends K | (keyof D & string), D extends Own> {
  name: string;
  summary: string;
  example: string;
  options: readonly K[];
  /** Options of the command's own room, from `ownOptions`. */
  own?: D;
  first?: readonly (NoInfer<K> | (keyof NoInfer<D> & string))[];
  required?: readonly R[];
  positional?: K;
  epilogue?: string;
  run(
    config: Config<K> & ConfigOf<D> & { readonly [N in R]-?: NonNullable<(Config & ConfigOf<D>)[N]> },
    io: CommandIo,
  ): Promise<CommandResult>;
}

/** A command whose `run` sees only the options it names, with the required ones present. */
export function defineCommand<
  const K extends OptionName,
  const R extends K | (keyof D & string) = never,
  const D extends Own = Record<never, never>,
>({ own, ...definition }: CommandDefinition<K, R, D>): Command {
  const { options, first, required = [], positional, epilogue, run } = definition;
  return {
    ...definition,
    options: [...options, ...(Object.keys(own ?? {}) as OptionName[])],
    first: first as readonly OptionName[] | undefined,
    required: required as unknown as readonly OptionName[],
    positional,
    epilogue,
    run: run as unknown as Command["run"],
  };
}
