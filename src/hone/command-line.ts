/**
 * The command line. Turns flags into options, runs one command, and keeps the promises every command makes:
 * `--json` prints one JSON object as the last line of stdout, a user's mistake is one clear line, and the exit code is
 * 0 (done), 1 (failed) or 2 (wrong usage).
 */
import "./options.js";
import { writeSync } from "node:fs";
import yargs, { type Argv } from "yargs";
import { flagOf, options, readGiven, withDefaults } from "../core/config/config.js";
import { refuseRemovedCommand, removedOption } from "../core/config/removed.js";
import { HoneError, messageOf, refusalOf, UnfinishedError, UsageError } from "../core/util/errors.js";
import { toJson } from "../core/util/json.js";
import { nearest } from "../core/util/nearest.js";
import { aboutPackage } from "../core/util/paths.js";
import { program } from "../core/util/program.js";
import { printable, printableJson } from "../core/util/text.js";
import { allowExit, guarded, onLost } from "../core/util/watch.js";
import { ProgressLine } from "../insight/report/progress-line.js";
import type { Command, CommandIo } from "./command.js";
import { commandList } from "./command-list.js";
import { loadCommands } from "./commands/commands.js";
import { declare, readHelp } from "./help.js";
import { onWrapperEnd } from "./wrapper.js";

/** The flags of one command line by option name. Refuses what the command does not take. */
function flagsOf(command: Command, argv: Record<string, unknown>, names: readonly string[]): Record<string, unknown> {
  const known = command.options;
  const flags: Record<string, unknown> = {};
  for (const [key, value] of Object.entries(argv)) {
    if (key === "_" || key === "$0" || key === "help") continue;
    const name = known.find((candidate) => candidate === key);
    if (!name) {
      const flag = `--${key.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
      const removed = removedOption(key, flag, command.name);
      if (removed) throw removed;
      const close = nearest(flag, known.map(flagOf));
      const bare = key === "run" && command.positional && `${command.name} ${value}`;
      if (bare) throw new UsageError(`${flag}: ${command.name} takes a run without a flag: ${program()} ${bare}`);
      const hint = close ? `did you mean ${close}?` : `\`${program()} ${command.name} --help all\` lists the options`;
      throw new UsageError(`${flag}: ${command.name} has no such option; ${hint}`);
    }
    const { flagless, env } = options[name];
    if (flagless) throw new UsageError(`${flagOf(name)} is no flag; set ${env}, or ${name} in hone.config.json`);
    flags[name] = value;
  }
  const extra = (argv._ as (string | number)[]).slice(command.name.split(" ").length);
  // A word that a command of several words lacks is most likely one of them, misspelt.
  const below = names.filter((name) => name.startsWith(`${command.name} `));
  if (below.length > 0 && extra.length > 0) throw unknownCommand(`${command.name} ${extra[0]}`, below);
  if (extra.length > 0 && command.positional && flags[command.positional] === undefined) {
    const { kind } = options[command.positional];
    const several = kind === "list" || kind === "words";
    flags[command.positional] = several ? extra.splice(0).map(String) : String(extra.shift());
  }
  if (extra.length > 0) throw new UsageError(`${command.name} does not know what to do with "${extra.join(" ")}"`);
  return flags;
}

function unknownCommand(name: string, known: readonly string[]): UsageError {
  const close = nearest(name, known);
  return new UsageError(
    `there is no command ${name}; ${close ? `did you mean ${close}?` : `\`${program()} --help\` lists them`}`,
  );
}

/** Node heeds SIGHUP under nohup too, whose log would end without a word. */
function hangUp(): void {
  // The first process of a container goes on: without a handler it gets no signal.
  if (process.pid === 1) return;
  const why = "ended with its terminal (SIGHUP): nohup does not keep Node running, setsid and tmux do";
  try {
    writeSync(2, `hone: ${why}\n`);
  } catch {
    // It was to be written on that terminal.
  }
  process.kill(process.pid, "SIGHUP");
}

function listen(): { signal: AbortSignal; stop(): void } {
  const controller = new AbortController();
  const interrupt = (name: NodeJS.Signals) => {
    // The second signal means it: whatever still runs is left to the next start to clean up.
    if (controller.signal.aborted) {
      allowExit();
      process.exit(name === "SIGINT" ? 130 : 143);
    }
    controller.abort(new HoneError(name === "SIGINT" ? "interrupted" : "terminated"));
  };
  process.on("SIGINT", interrupt).on("SIGTERM", interrupt).once("SIGHUP", hangUp);
  // As SIGTERM, which it has not passed on. After Ctrl-C it may end sooner than this process.
  const unwatch = onWrapperEnd(() => {
    if (!controller.signal.aborted)
      controller.abort(new HoneError("terminated: the npm, npx or yarn that started hone has ended"));
  });
  return {
    signal: controller.signal,
    stop: () => {
      process.off("SIGINT", interrupt).off("SIGTERM", interrupt).off("SIGHUP", hangUp);
      unwatch();
    },
  };
}

async function runCommand(command: Command, flags: Record<string, unknown>): Promise<void> {
  const given = await readGiven({ flags, env: process.env, folder: command.configFile ? process.cwd() : null });
  const config = withDefaults(command.options, given);
  for (const name of command.required) {
    if (config[name] === undefined)
      throw new UsageError(`${command.name} needs ${flagOf(name)}: ${options[name].description}`);
  }
  const stream = config.json ? process.stderr : process.stdout;
  const progress = new ProgressLine(stream);
  const { signal, stop } = listen();
  const io: CommandIo = {
    stream,
    progress,
    signal,
    given,
    log: (text) => progress.log(text),
    show: (text) => progress.show(text),
  };
  try {
    const result = await command.run(config as Parameters<Command["run"]>[0], io).finally(() => progress.clear());
    if (config.json) process.stdout.write(`${printableJson(toJson(result))}\n`);
  } finally {
    stop();
  }
}

function report(error: unknown, json: boolean): number {
  const known = error instanceof HoneError ? error.message : refusalOf(error);
  const done = error instanceof UnfinishedError ? error.result : {};
  if (json) process.stdout.write(`${printableJson(JSON.stringify({ error: known ?? messageOf(error), ...done }))}\n`);
  const unexpected = () =>
    `unexpected error, please report it\n${error instanceof Error ? error.stack : messageOf(error)}`;
  // Written synchronously: the process may be about to exit.
  writeSync(2, `hone: ${printable(known ?? unexpected())}\n`);
  return error instanceof HoneError ? error.exitCode : 1;
}

/** "models" of "models pull"; undefined for a command of one word. */
function parentOf(name: string): string | undefined {
  return name.includes(" ") ? name.slice(0, name.lastIndexOf(" ")) : undefined;
}

/** The options of the task that `--task TASK --help` names; undefined where none is named. */
async function helpOnTask(args: readonly string[]): Promise<string | undefined> {
  const at = args.findIndex((arg) => /^--task(=|$)/.test(arg));
  if (at < 0 || !args.includes("--help")) return undefined;
  const reference = args[at]?.startsWith("--task=") ? args[at]?.slice("--task=".length) : args[at + 1];
  if (!reference || reference.startsWith("-")) return undefined;
  const { loadTask } = await import("../scenarios/load.js");
  const { taskOptionsText } = await import("../scenarios/task-options.js");
  return taskOptionsText(await loadTask(reference));
}

async function runCommandLine(given: string[]): Promise<number> {
  if (given[0] === "--version") {
    process.stdout.write(`${aboutPackage().version}\n`);
    return 0;
  }
  // `help train` is `train --help`.
  const words = given[0] === "help" ? [...given.slice(1), "--help"] : given;
  refuseRemovedCommand(words);
  const commands = await loadCommands(words[0]);
  const known = commands.map(({ name }) => name);
  if (given[0] === "help" && given[1] !== undefined && !known.includes(given[1])) throw unknownCommand(given[1], known);
  const { args, everything } = readHelp(words);
  const list = () => console.log(commandList(process.stdout.columns));
  if (args.length === 0 || (args.length === 1 && args[0] === "--help")) {
    list();
    return 0;
  }
  const ofTask = await helpOnTask(args);
  const parser = yargs(args)
    .scriptName(program())
    .parserConfiguration({ "strip-dashed": true, "dot-notation": false, "parse-numbers": false })
    .exitProcess(false)
    .version(false)
    .help()
    .wrap(Math.min(process.stdout.columns ?? 100, 120))
    .fail((message, error) => {
      // yargs' own complaints ("Not enough arguments following: db") are about usage, everything else is not.
      if (error && error.name !== "YError") throw error;
      throw new UsageError((message ?? messageOf(error)).split("\n")[0] ?? "wrong usage");
    });

  let exitCode = 0;
  const add = (to: Argv, command: Command): Argv =>
    to.command(
      command.name.split(" ").at(-1) as string,
      `${command.summary}\n  ${command.example}`,
      (sub) => {
        for (const below of commands.filter(({ name }) => parentOf(name) === command.name)) add(sub, below);
        return declare(sub, command, everything, command.options.includes("set") ? ofTask : undefined);
      },
      async (argv) => {
        const json = argv.json === true;
        try {
          await runCommand(command, flagsOf(command, argv, known));
        } catch (error) {
          exitCode = report(error, json);
        }
      },
    );
  for (const command of commands) if (parentOf(command.name) === undefined) add(parser, command);
  parser.command("$0", false, {}, (argv) => {
    const [word] = argv._;
    if (word === undefined) {
      list();
      return;
    }
    throw unknownCommand(String(word), known);
  });

  await parser.parseAsync();
  return exitCode;
}

/**
 * Runs a command line: its words after the program's name.
 *
 * @returns the exit code; what it prints is on stdout and stderr by then
 */
export async function main(args: string[]): Promise<number> {
  const json = args.includes("--json");
  onLost((message) => report(new HoneError(message), json));
  try {
    return await guarded("the command", () => runCommandLine(args));
  } catch (error) {
    return report(error, json);
  }
}
