/** `--help`: the options of a command under their headings, those that are set first or (`--help all`) every one. */
import type { Argv, Options } from "yargs";
import { nearest, UsageError } from "../util/index.js";
import type { Command } from "./command.js";
import { flagOf, type OptionName, options } from "./config.js";

export interface HelpAsked {
  /** The command line without the word after `--help`. */
  readonly args: string[];
  readonly everything: boolean;
}

/**
 * What `--help` is asked for: `all`, nothing, or before its command (`hone --help train`) the command.
 *
 * @throws UsageError for any other word after it
 */
export function readHelp(given: readonly string[], commands: readonly string[]): HelpAsked {
  const end = given.indexOf("--");
  const at = given.findIndex((arg, index) => /^--help(=|$)/.test(arg) && (end < 0 || index < end));
  const args = [...given];
  if (at < 0) return { args, everything: false };
  const attached = given[at]?.startsWith("--help=") ? given[at]?.slice("--help=".length) : undefined;
  const next = given[at + 1];
  const word = attached ?? (next === undefined || next.startsWith("-") ? undefined : next);
  if (word === undefined) return { args, everything: false };
  const isCommand = attached === undefined && !given.slice(0, at).some((arg) => commands.includes(arg));
  if (word === "all") args.splice(at, attached === undefined ? 2 : 1, "--help");
  else if (!isCommand || !commands.includes(word)) {
    const close = isCommand ? nearest(word, commands) : undefined;
    throw new UsageError(
      `--help ${word}: ${close ? `did you mean ${close}? ` : ""}give --help, or --help all for every option`,
    );
  }
  return { args, everything: word === "all" };
}

/** The options a command takes on the command line; every command takes these two. */
export function optionsOf(command: Command): OptionName[] {
  return [...new Set<OptionName>([...command.options, "home", "json"])];
}

function declaration(name: OptionName, hidden: boolean): Options {
  const { kind, group, description, accepts, default: value, defaultText } = options[name];
  const shown = value !== undefined && kind !== "flag" ? String(value) : defaultText;
  const about = [
    ...(kind === "flag" || accepts === "text" ? [] : [accepts]),
    ...(shown === undefined ? [] : [`default: ${shown}`]),
  ].join("; ");
  const common: Options = {
    description: about ? `${description} (${about})` : description,
    group: `${group}:`,
    hidden,
  };
  if (kind === "flag") return { ...common, boolean: true };
  return { ...common, string: true, requiresArg: true, ...(kind === "list" ? { array: true } : {}) };
}

/** Tells yargs of a command's options, and what its help shows. */
export function declare(parser: Argv, command: Command, everything: boolean): Argv {
  const names = optionsOf(command);
  const first: ReadonlySet<OptionName> | undefined = command.first && new Set([...command.first, "json"]);
  const short = first !== undefined && !everything;
  // In the order of their definitions, so that headings come in one order everywhere.
  for (const name of (Object.keys(options) as OptionName[]).filter((one) => names.includes(one))) {
    parser.option(flagOf(name).slice(2), declaration(name, short && !first.has(name)));
  }
  parser.group("help", `${options.json.group}:`);
  // What a value may be stands in the description; yargs' types do not have this call.
  (parser as Argv & { usageConfiguration(what: object): Argv }).usageConfiguration({ "hide-types": true });
  if (short) {
    const all = `yarn hone ${command.name} --help all`;
    parser.epilogue(`These are the options that are set first; \`${all}\` shows all ${names.length}.`);
  }
  const usage = `yarn hone ${command.name}${command.positional ? ` <${command.positional}>` : ""} [options]`;
  return parser.usage(`${usage}\n\n${command.summary}`).example(command.example, "");
}
