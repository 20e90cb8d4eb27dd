/** Errors that people read: what is wrong, and on a line of its own what to do, where both together are long. */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../src/core/util/paths.js";

const MOST_WORDS = 40;
const LITERAL = /`(?:[^`\\]|\\.)*`|"(?:[^"\\\n]|\\.)*"/.source;
const ERROR = new RegExp(`new \\w*Error\\(\\s*((?:(?:${LITERAL})[\\s+]*)+)`, "g");

/** A message's lines as they stand in the code, a value in the place of each expression. */
const linesOf = (literals: string) => literals.replaceAll(/\$\{[^{}]*\}/g, "VALUE").split(/\\n|\n/);

it("no line of an error has more than forty words", () => {
  const src = join(packageRoot, "src");
  const files = readdirSync(src, { recursive: true, encoding: "utf8" }).filter((name) => name.endsWith(".ts"));
  const found = files.flatMap((name) =>
    [...readFileSync(join(src, name), "utf8").matchAll(ERROR)].flatMap(([, literals = ""]) =>
      linesOf(literals).map((line) => ({ name, line, words: line.split(/\s+/).filter(Boolean).length })),
    ),
  );
  expect(found.length).toBeGreaterThan(500);
  expect(found.filter(({ words }) => words > MOST_WORDS)).toEqual([]);
});
