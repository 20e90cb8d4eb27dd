/** `--help`: the options of a command under their headings, the common ones or (`--help all`) all. */
import type { Argv, Options } from "yargs";
import { flagOf, isOwn, type OptionName, options } from "../core/config/config.js";
import { defaultTextFor } from "../core/config/option.js";
import { program } from "../core/util/program.js";
import type { Command } from "./command.js";

/** Reads the word after `--help`, of which `all` is none of the command's. */
export function readHelp(given: readonly string[]) {
  const end = given.indexOf("--");
  const at = given.findIndex((arg, index) => /^--help(=|$)/.test(arg) && (end < 0 || index < end));
  const everything = at >= 0 && (given[at] === "--help=all" || given[at + 1] === "all");
  const words = given[at] === "--help" && everything ? 2 : 1;
  return { args: at < 0 ? [...given] : given.toSpliced(at, words, "--help"), everything };
}

function declaration(name: OptionName, command: string, hidden: boolean): Options {
  const { kind, group, description, accepts, default: value, defaultText } = options[name];
  const shown = value !== undefined && kind !== "flag" ? String(value) : defaultTextFor(defaultText, command);
  const about = [
    ...(kind === "flag" || accepts === "text" ? [] : [accepts]),
    ...(shown === undefined ? [] : [`default: ${shown}`]),
  ].join("; ");
  const common: Options = {
    description: about ? `${description} (${about})` : description,
    group: `${group}:`,
    hidden,
    // A command of two words does not take the options of its first one.
    global: false,
  };
  if (kind === "flag") return { ...common, boolean: true };
  return {
    ...common,
    string: true,
    requiresArg: true,
    ...(kind === "list" || kind === "words" || kind === "pairs" || kind === "texts" ? { array: true } : {}),
  };
}

const isSeveral = (kind: string) => kind === "list" || kind === "words";

/** " <file>" where the command needs it, " [run]" where it has a default, " [runs...]" where it takes several. */
function positionalText({ positional, required }: Command): string {
  if (!positional) return "";
  const name = isSeveral(options[positional].kind) ? `${positional}...` : positional;
  return required.includes(positional) ? ` <${name}>` : ` [${name}]`;
}

/**
 * Declares a command's options to yargs, and the content of its help.
 * @param more shown after the options
 */
export function declare(parser: Argv, command: Command, everything: boolean, more?: string): Argv {
  const names = command.options.filter((name) => !options[name].flagless);
  const first: ReadonlySet<OptionName> | undefined = command.first && new Set([...command.first, "json"]);
  const short = first !== undefined && !everything;
  // In the order of their definitions, so that the order of headings is the same everywhere; those of the command's own room come first.
  const ordered = (Object.keys(options) as OptionName[]).filter((one) => names.includes(one));
  ordered.sort((a, b) => Number(!isOwn(a)) - Number(!isOwn(b)));
  for (const name of ordered) {
    parser.option(flagOf(name).slice(2), declaration(name, command.name, short && !first.has(name)));
  }
  parser.group("help", `${options.json.group}:`);
  // Types are left out, since the descriptions say which values are accepted. yargs' typings lack the call.
  (parser as Argv & { usageConfiguration(what: object): Argv }).usageConfiguration({ "hide-types": true });
  if (more) parser.epilogue(more);
  if (short) {
    const all = `${program()} ${command.name} --help all`;
    parser.epilogue(`These are the options that are set first; \`${all}\` shows all ${names.length}.`);
  }
  if (command.epilogue && !short) parser.epilogue(command.epilogue);
  const usage = `${program()} ${command.name}${positionalText(command)} [options]`;
  return parser.usage(`${usage}\n\n${command.summary}`).example(command.example, "");
}
