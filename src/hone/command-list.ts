/** What `yarn hone --help` prints: every command with its summary and an example. Loads no command and no package. */

import { hone, program } from "../core/util/program.js";
import { commands } from "./commands/commands.js";

const MOST_COLUMNS = 120;

/** Lines of at most `width` characters, broken between words. */
function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && longer.length <= width) lines.splice(-1, 1, longer);
    else lines.push(word);
  }
  return lines;
}

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
