/** What `yarn hone --help` prints: every command with its summary and an example. Loads no command and no package. */

import { hone, program } from "../core/util/program.js";
import { wrapped } from "../core/util/text.js";
import { commands } from "./commands/commands.js";

const MOST_COLUMNS = 120;

/** @param columns of the terminal */
export function commandList(columns = 100): string {
  const width = Math.min(columns, MOST_COLUMNS);
  // Those of two words are in the help of their first one.
  const rows = Object.entries(commands).filter(([name]) => !name.includes(" "));
  const name = (of: string) => `  ${program()} ${of}  `;
  const indent = Math.max(...rows.map(([of]) => name(of).length));
  const row = ([of, { summary, example }]: (typeof rows)[number]) =>
    [summary, `${hone(of)} ${example}`.trimEnd()]
      .flatMap((text) => wrapped(text, width - indent))
      .map((line, index) => `${(index === 0 ? name(of) : "").padEnd(indent)}${line}`);
  return [
    `${program()} <command> [options]`,
    `${program()} --version`,
    "",
    "Train a small language model to use tools, on one machine.",
    "",
    "Commands:",
    ...rows.flatMap(row),
    "",
    `\`${program()} COMMAND --help\` shows the options of a command.`,
  ].join("\n");
}
