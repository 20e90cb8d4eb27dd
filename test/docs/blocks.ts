/** The code blocks of README, CONTRIBUTING and docs/. The words behind a block's language say how it is tested: CONTRIBUTING.md. */
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";

export type Treatment = "run" | "slow" | "parsed" | "tested-by" | "file" | "text";

export interface Block {
  readonly page: string;
  /** Line of the opening fence, from 1. */
  readonly line: number;
  readonly treatment: Treatment;
  /** The test's file, or the name of the program's; "" for other treatments. */
  readonly name: string;
  readonly text: string;
}

export const pages: readonly string[] = [
  "README.md",
  "CONTRIBUTING.md",
  "examples/README.md",
  ...readdirSync(join(packageRoot, "docs"))
    .filter((name) => name.endsWith(".md"))
    .sort()
    .map((name) => `docs/${name}`),
];

export const textOf = (page: string) => readFileSync(join(packageRoot, page), "utf8");

function treatmentOf(opening: string): { treatment: Treatment; name: string } | undefined {
  if (/^(\w+ )?text$/.test(opening)) return { treatment: "text", name: "" };
  const [, plain] = /^sh (run|slow|parsed)$/.exec(opening) ?? [];
  if (plain) return { treatment: plain as Treatment, name: "" };
  const [, test] = /^sh tested-by=(\S+)$/.exec(opening) ?? [];
  if (test && existsSync(join(packageRoot, test))) return { treatment: "tested-by", name: test };
  const [, file] = /^ts file=([\w-]+\.ts)$/.exec(opening) ?? [];
  return file ? { treatment: "file", name: file } : undefined;
}

/** @throws Error naming the page and line of a block that does not say how it is tested */
export function blocksOf(page: string, markdown = textOf(page)): Block[] {
  const blocks: Block[] = [];
  const lines = markdown.split("\n");
  for (let at = 0; at < lines.length; at++) {
    const [, fence, opening = ""] = /^\s*(`{3,}|~{3,})(.*)$/.exec(lines[at] as string) ?? [];
    if (!fence) continue;
    const end = lines.findIndex((line, index) => index > at && line.trim() === fence);
    const said = treatmentOf(opening.trim());
    if (end < 0 || !said) {
      throw new Error(
        `${page}:${at + 1}: ${end < 0 ? "the block does not end" : `"${opening}" does not say how the block is tested`}; CONTRIBUTING.md, "Documents", lists the forms`,
      );
    }
    blocks.push({ page, line: at + 1, ...said, text: lines.slice(at + 1, end).join("\n") });
    at = end;
  }
  return blocks;
}

/** Of pages whose blocks all say how they are tested; for others a test of their own fails. */
export const blocksOfAll = (treatment: Treatment) =>
  pages
    .flatMap((page) => {
      try {
        return blocksOf(page);
      } catch {
        return [];
      }
    })
    .filter((block) => block.treatment === treatment);

/** The commands of a shell block: lines without comments; a backslash at its end joins a line to the next. */
export function commandsOf({ text }: Pick<Block, "text">): string[] {
  return text
    .replaceAll(/ \\\n\s*/g, " ")
    .split("\n")
    .map((line) => line.replace(/(^|\s+)#.*$/, ""))
    .filter((line) => line !== "");
}
