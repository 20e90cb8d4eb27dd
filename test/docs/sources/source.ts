/** Where the numbers of a page come from. */
import { expect } from "vitest";
import { textOf } from "../blocks.js";

export interface Table {
  /** Its first header cell. */
  readonly header: string;
  readonly rows: readonly (readonly string[])[];
}

/** A phrase of the page, a file of the repository, and the text there that declares its number. */
export type Declared = readonly [phrase: string, file: string, declaration: string];

export interface Source {
  readonly page: string;
  /** Phrases made from files of bench/results. */
  readonly measured: readonly string[];
  readonly tables: readonly Table[];
  readonly declared: readonly Declared[];
  /** First header cells of tables that another test compares. */
  readonly elsewhere: readonly string[];
  /** Phrases whose number is a name, arithmetic or a form of speech. */
  readonly plain: readonly string[];
}

const inOneLine = (text: string) => text.replaceAll(/\s+/g, " ");

/** A page's text in one line, without code, links and the named tables. */
export function proseOf(page: string, headers: readonly string[]): string {
  const lines = textOf(page)
    .replaceAll(/^```[\s\S]*?^```$/gm, "")
    .replaceAll(/<!--[\s\S]*?-->/g, "")
    .split("\n");
  const left: string[] = [];
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] as string;
    if (headers.some((header) => line.startsWith(`| ${header} |`))) while (lines[at + 1]?.startsWith("|")) at++;
    else left.push(line);
  }
  return inOneLine(left.join("\n"))
    .replaceAll(/`[^`]*`/g, "``")
    .replaceAll(/\]\([^)]*\)/g, "]");
}

/** Words with a number that is no figure: SmolLM2, f16, 0.5B, a 4090, 16 bits, 95 % interval, seed 1, CUDA 13. */
const NAMES = [
  /\d+ % intervals?/g,
  /(?<![\w.])[A-Za-z][\w.+-]*\d[\w.+-]*/g,
  /\b\d+(\.\d+)?B\b/g,
  /\b(3060|4060|4090)\b/g,
  /\b\d+[ -]bits?\b/g,
  /\b(CUDA|Llama|Node|Python|TRL|seeds?) \d[\d.]*/g,
];

/** What is left of a page's numbers, with the words around them, where every phrase that has a source is taken away. */
export function unsourced({ page, measured, tables, declared, elsewhere, plain }: Source): string[] {
  let prose = proseOf(page, [...tables.map(({ header }) => header), ...elsewhere]);
  const phrases = [...measured, ...declared.map(([phrase]) => phrase), ...plain];
  // Longer ones first: a short one may be a part of another.
  for (const phrase of phrases.toSorted((a, b) => b.length - a.length)) {
    expect(prose, `${page} says it`).toContain(phrase);
    prose = prose.replaceAll(phrase, "…");
  }
  for (const name of NAMES) prose = prose.replaceAll(name, "…");
  return [...prose.matchAll(/\d[\d.,]*/g)].map(({ index }) => prose.slice(Math.max(0, index - 40), index + 40));
}
