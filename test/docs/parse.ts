/** Checks a command line of the documentation without running it. */
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import yargs from "yargs";
import { options, readGiven } from "../../src/core/config/config.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { loadCommands } from "../../src/hone/commands/commands.js";
import { declare } from "../../src/hone/help.js";

const commands = await loadCommands();

interface Manifest {
  readonly packageManager: string;
  readonly scripts: Readonly<Record<string, string>>;
}

export const manifest = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as Manifest;
/** A folder without a hone.config. */
const folder = join(packageRoot, "docs");
/** Programs that are not hone's. */
const FOREIGN = ["llama-server", "npm", "uv", "echo"];

/** A command's words; quotes are taken off. */
const wordsOf = (command: string) =>
  [...command.matchAll(/"([^"]*)"|'([^']*)'|([^\s"']+)/g)].map(
    ([, double, single, bare]) => double ?? single ?? bare ?? "",
  );

/** @throws Error when the line would be refused, or names what does not exist */
export async function checkLine(line: string): Promise<void> {
  const alias = /^alias yarn='npx --yes (yarn@\S+)'$/.exec(line);
  if (alias) return requireYarn(alias[1] as string);
  for (const command of line.split(" && ")) await checkCommand(wordsOf(command.replace(/\s+>\s*\S+$/, "")));
}

function requireYarn(version: string): void {
  if (version !== manifest.packageManager) throw new Error(`${version} is not ${manifest.packageManager}`);
}

async function checkCommand(given: readonly string[]): Promise<void> {
  const [program = "", ...rest] = given.slice(given.findIndex((word) => !/^\w+=/.test(word)));
  if (program === "npx" && rest.slice(0, 3).join(" ") === "--no -- hone") return checkHone(rest.slice(3));
  if (program === "npx" && rest[0] === "--yes") {
    requireYarn(rest[1] as string);
    return checkYarn(rest.slice(2));
  }
  if (program === "yarn") return checkYarn(rest);
  if (program === "node") return checkScript(rest[0] as string, rest.slice(1));
  if (program === "bash") return requireFile(rest[0] as string);
  if (program === "pip") {
    const at = rest.indexOf("-r");
    if (at >= 0) requireFile(rest[at + 1] as string);
    return;
  }
  if (!FOREIGN.includes(program)) throw new Error(`${program} is no program that the documentation uses`);
}

async function checkYarn([script = "", ...rest]: readonly string[]): Promise<void> {
  if (script === "install") return;
  const body = manifest.scripts[script];
  if (body === undefined) throw new Error(`yarn ${script}: package.json has no such script`);
  const [, command] = /node dist\/src\/cli\.js ?(.*)$/.exec(body) ?? [];
  if (command !== undefined) return checkHone([...command.split(" ").filter(Boolean), ...rest]);
  const [, file] = /node (\S+)$/.exec(body) ?? [];
  if (file) return checkScript(file, rest);
  if (rest.length > 0) throw new Error(`yarn ${script} takes nothing, but is given ${rest.join(" ")}`);
}

function requireFile(path: string): void {
  if (!existsSync(join(packageRoot, path))) throw new Error(`there is no ${path}`);
}

/** A program of the repository: its source names the flags, and other words with a slash are files. */
function checkScript(path: string, args: readonly string[]): void {
  const source = path.replace(/^dist\//, "").replace(/\.js$/, path.startsWith("dist/") ? ".ts" : ".js");
  requireFile(source);
  const text = readFileSync(join(packageRoot, source), "utf8");
  for (const arg of args) {
    const [, flag] = /^--([a-z-]+)/.exec(arg) ?? [];
    if (flag && !text.includes(`--${flag}`)) throw new Error(`${source} has no --${flag}`);
    if (!flag && arg.startsWith("test/")) requireFile(arg);
  }
}

/** As src/hone/command-line.ts reads a command line, up to the options' values. */
async function checkHone(args: readonly string[]): Promise<void> {
  const words = args.filter((arg) => arg !== "--help");
  if (args[0] === "help" || words.length === 0) {
    const name = words.slice(1).join(" ");
    if (name && !commands.some((command) => command.name === name)) throw new Error(`there is no command ${name}`);
    return;
  }
  const command = commands
    .filter(({ name }) => name.split(" ").every((word, index) => words[index] === word))
    .sort((a, b) => b.name.length - a.name.length)[0];
  if (!command) throw new Error(`there is no command ${words[0]}`);
  const parser = yargs(words.slice(command.name.split(" ").length))
    .parserConfiguration({ "strip-dashed": true, "dot-notation": false, "parse-numbers": false })
    .exitProcess(false)
    .version(false)
    .help(false)
    .fail((message, error) => {
      throw error ?? new Error(message);
    });
  const { _: extra, $0: _, ...flags } = (await declare(parser, command, true).parseAsync()) as Record<string, unknown>;
  const known: readonly string[] = command.options;
  const unknown = Object.keys(flags).find((name) => !known.includes(name));
  if (unknown) throw new Error(`${command.name} has no option ${unknown}`);
  const free = (extra as (string | number)[]).map(String);
  if (free.length > 0 && !command.positional) throw new Error(`${command.name} does not take ${free.join(" ")}`);
  if (free.length > 0 && command.positional) {
    const several = ["list", "words"].includes(options[command.positional].kind);
    if (free.length > 1 && !several) throw new Error(`${command.name} takes one ${command.positional}`);
    flags[command.positional] = several ? free : free[0];
  }
  const given = await readGiven({ flags, env: {}, folder });
  const missing = args.includes("--help")
    ? undefined
    : command.required.find((name) => (given as Record<string, unknown>)[name] === undefined);
  if (missing) throw new Error(`${command.name} needs ${missing}`);
}
