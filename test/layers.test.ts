/**
 * The layers of `src/`, as CONTRIBUTING.md draws them: every import, of types and dynamic ones too, leads from a room to a room
 * below it, and to a file that this room's README.md says others may import.
 */
import { readdirSync, readFileSync } from "node:fs";
import { dirname, join, relative, resolve, sep } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../src/core/util/paths.js";

const source = join(packageRoot, "src");

/** Rooms by layer, the highest first: the lines of the diagram below "Imports point one way". */
function diagram(text: string): string[][] {
  const [, block] = /Imports point one way[\s\S]*?```text\n([\s\S]*?)```/.exec(text) ?? [];
  if (block === undefined) throw new Error("CONTRIBUTING.md has no diagram of layers");
  return block
    .split("\n")
    .map((line) => line.trim().split(/[ ,]+/).filter(Boolean))
    .filter((rooms) => rooms.length > 0);
}

interface Import {
  /** Paths from `src/`. */
  readonly from: string;
  readonly to: string;
}

/** All specifiers that begin with a dot: of imports, exports, types, dynamic imports, and files that threads run. */
const SPECIFIER = /(?:\bfrom\s*|\bimport\s*\(?\s*|\bnew URL\(\s*)"(\.{1,2}\/[^"]+)"/g;

function importsOf(file: string, text: string): Import[] {
  return [...text.matchAll(SPECIFIER)].map(([, specifier]) => ({
    from: file,
    to: relative(source, resolve(source, dirname(file), specifier as string))
      .split(sep)
      .join("/"),
  }));
}

/** The room of a path from `src/`; undefined for what is not in `src/`, or in no room: index.ts and cli.ts. */
const roomOf = (path: string) => (path.startsWith("..") || !path.includes("/") ? undefined : path.split("/")[0]);

/** The files of a room that others may import, as its README.md lists them. */
function listedIn(text: string): string[] {
  const [, list] = /Other rooms import:([^.]*(?:\.m?ts[^.]*)*)\.\n/.exec(text) ?? [];
  return [...(list ?? "").matchAll(/`([^`]+)`/g)].map(([, file]) => file as string);
}

/** As it is imported: with the ending of the compiled file. */
const compiled = (file: string) => file.replace(/\.(m?)ts$/, ".$1js");

/** Imports that do not lead downwards, or to a file that is private to its room; rooms that the diagram lacks. */
function problems(
  layers: readonly (readonly string[])[],
  open: ReadonlySet<string>,
  imports: readonly Import[],
): string[] {
  const level = new Map(layers.flatMap((rooms, index) => rooms.map((room) => [room, index] as const)));
  return imports.flatMap(({ from, to }) => {
    const [a, b] = [roomOf(from), roomOf(to)];
    if (a === b) return [];
    // index.ts and cli.ts are above all rooms. Nothing imports them.
    if (b === undefined) return to.startsWith("..") || a === undefined ? [] : [`${from} imports ${to}`];
    const missing = [a, b].filter((room) => room !== undefined && !level.has(room));
    if (missing.length > 0) return [`${missing.join(" and ")}: no such room in CONTRIBUTING's diagram (${from})`];
    if (a !== undefined && (level.get(a) as number) >= (level.get(b) as number))
      return [`${from} → ${to}: not downwards`];
    return open.has(to) || a === undefined ? [] : [`${from} → ${to}: private, or not listed in ${b}/README.md`];
  });
}

const files = readdirSync(source, { recursive: true, encoding: "utf8" })
  .map((file) => file.split(sep).join("/"))
  .filter((file) => /\.m?ts$/.test(file));
const imports = files.flatMap((file) => importsOf(file, readFileSync(join(source, file), "utf8")));
const layers = diagram(readFileSync(join(packageRoot, "CONTRIBUTING.md"), "utf8"));
const rooms = [...new Set(files.map(roomOf).filter((room) => room !== undefined))];
const listed = rooms.flatMap((room) =>
  listedIn(readFileSync(join(source, room, "README.md"), "utf8")).map((file) => `${room}/${file}`),
);
const open = new Set(listed.map(compiled));

describe("the layers of src/", () => {
  it("are those of CONTRIBUTING's diagram", () => {
    expect(imports.length).toBeGreaterThan(1000);
    expect(problems(layers, open, imports)).toEqual([]);
    expect(new Set(layers.flat())).toEqual(new Set(rooms));
  });

  it("have no file listed that is not there, or that no other room imports", () => {
    const used = new Set(imports.filter(({ from, to }) => roomOf(from) !== roomOf(to)).map(({ to }) => to));
    expect(listed.filter((file) => !files.includes(file) || !used.has(compiled(file)))).toEqual([]);
  });

  it("the core is what a reader knows in an hour", () => {
    const core = files.filter((file) => roomOf(file) === "core");
    const lines = core.map((file) => readFileSync(join(source, file), "utf8").split("\n").length - 1);
    expect(core.length).toBeLessThanOrEqual(140);
    expect(lines.reduce((sum, one) => sum + one, 0)).toBeLessThanOrEqual(11_000);
    expect(rooms.length).toBeLessThanOrEqual(13);
  });

  it.each([
    ["a type", 'import type { Step } from "../trainer/loop.js";'],
    ["a dynamic import", 'const { step } = await import("../trainer/loop.js");'],
    ["a type in place", 'let step: import("../trainer/loop.js").Step;'],
    ["an export", 'export { step } from "../trainer/loop.js";'],
    ["a thread's file", 'new Worker(new URL("../trainer/worker.js", import.meta.url));'],
  ])("%s from above is found", (_, line) => {
    expect(problems(layers, open, importsOf("core/planted.ts", line))).toEqual([
      expect.stringMatching(/^core\/planted\.ts → trainer\/\w+\.js: not downwards$/),
    ]);
  });

  it("an import of a file that is private to its room is found", () => {
    expect(
      problems(layers, open, importsOf("trainer/planted.ts", 'import { x } from "../chat/jinja/access.js";')),
    ).toEqual(["trainer/planted.ts → chat/jinja/access.js: private, or not listed in chat/README.md"]);
  });
});
