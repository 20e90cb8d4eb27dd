/**
 * Examples as their frameworks publish them: they are read from the installed packages, whose authors ship them, or from the
 * framework's repository at a commit, and none of them is part of hone.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Installed } from "./install.js";

/** A program of one file or more. */
export interface Published {
  /** Of the program's folder: the one that is started. */
  readonly start: string;
  readonly files: readonly PublishedFile[];
}

interface PublishedFile {
  readonly as: string;
  /** Below the installed packages; "*" stands for one folder's name. */
  readonly from: string;
  /** Of a page, or of comments: a text that the first block of code with the example has. Undefined: the file is the program. */
  readonly block?: string;
  /** What is replaced, each once: the model's name, and what the table of docs/agents.md says. */
  readonly edits?: readonly (readonly [from: string, to: string])[];
}

/** Expands the one "*". */
function find(folder: string, pattern: string): string {
  const parts = pattern.split("/");
  const at = parts.findIndex((part) => part.includes("*"));
  if (at < 0) return join(folder, pattern);
  const [before = "", after = ""] = (parts[at] as string).split("*");
  const above = join(folder, ...parts.slice(0, at));
  const found = readdirSync(above).find((name) => name.startsWith(before) && name.endsWith(after));
  if (!found) throw new Error(`nothing in ${above} is called ${parts[at]}`);
  return find(folder, [...parts.slice(0, at), found, ...parts.slice(at + 1)].join("/"));
}

/** Blocks of code of a page in Markdown, or in the comments of a program: without what stands before each line there. */
const blocksOf = (page: string) =>
  [...page.matchAll(/^( *(?:\* )?)```(?:ts|js|typescript|python|py)\b[^\n]*\n([\s\S]*?)^\1```/gm)].map(
    ([, before = "", block = ""]) =>
      block
        .split("\n")
        .map((line) => (line.startsWith(before) ? line.slice(before.length) : line.replace(/^[ *]*$/, "")))
        .join("\n"),
  );

function textOf({ from, block, edits = [] }: PublishedFile, installed: Installed): string {
  const page = readFileSync(find(installed.folder, from), "utf8");
  const text = block === undefined ? page : blocksOf(page).find((one) => one.includes(block));
  if (text === undefined) throw new Error(`${from} has no block of code with ${block}`);
  return edits.reduce((edited, [was, is]) => {
    if (edited.split(was).length !== 2) throw new Error(`${from} does not have ${was} once`);
    return edited.replace(was, is);
  }, text);
}

/** Whether its files are there: those of a repository may be out of reach. */
export const isThere = ({ files }: Published, installed: Installed): boolean =>
  files.every(({ from }) => !from.startsWith("repositories/") || existsSync(join(installed.folder, from)));

/** Writes the program's files below a folder. @throws Error where a package ships another example than the one known */
export function writePublished({ files }: Published, installed: Installed, folder: string): void {
  for (const file of files) {
    const path = join(folder, file.as);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, textOf(file, installed));
  }
}
