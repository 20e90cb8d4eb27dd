/** Which compiled files are loaded. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { addonFile, type Places, platformPackage, sqliteFile } from "../../src/core/util/binaries.js";

const sqlite = `better_sqlite3-${process.versions.modules}.node`;
let base: string;
let places: Places;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "hone-binaries-"));
  put("hone/package.json", '{ "version": "1.2.3" }');
  const folders: Record<string, string> = { [platformPackage]: "platform", "better-sqlite3": "sqlite" };
  places = { root: join(base, "hone"), folderOf: (name) => join(base, folders[name] ?? "none") };
});
afterEach(() => rmSync(base, { recursive: true }));

function put(path: string, text = ""): string {
  const file = join(base, path);
  mkdirSync(dirname(file), { recursive: true });
  writeFileSync(file, text);
  return file;
}

function platform(version: string) {
  put("platform/package.json", JSON.stringify({ version }));
  return { addon: put("platform/hone_engine.node"), sqlite: put(`platform/${sqlite}`) };
}

describe("the engine's addon", () => {
  it("is that of the platform's package", () => {
    const { addon } = platform("1.2.3");
    expect(addonFile(places)).toBe(addon);
  });

  it("is the one compiled here, which is there only where the other does not load", () => {
    platform("1.2.3");
    const compiled = put("hone/build/Release/hone_engine.node");
    expect(addonFile(places)).toBe(compiled);
  });

  it("is never that of another version of hone", () => {
    platform("1.2.4");
    expect(addonFile(places)).toBe(join(base, "hone/build/Release/hone_engine.node"));
  });
});

describe("SQLite", () => {
  it("is that of the platform's package for this Node", () => {
    const { sqlite } = platform("1.2.3");
    expect(sqliteFile(places)).toBe(sqlite);
  });

  it("is the one compiled here for this Node, never better-sqlite3's own, which may be another Node's", () => {
    put("sqlite/build/Release/better_sqlite3.node");
    platform("1.2.4");
    const compiled = put(`hone/build/Release/${sqlite}`);
    expect(sqliteFile(places)).toBe(compiled);
    rmSync(compiled);
    expect(() => sqliteFile(places)).toThrow("there is no SQLite for Node");
  });

  it("that is missing is one line, with Node's version and where it was looked for", () => {
    rmSync(platform("1.2.3").sqlite);
    expect(() => sqliteFile(places)).toThrow(
      `there is no SQLite for Node ${process.versions.node} on ${process.platform} ${process.arch} (looked for ${base}`,
    );
  });
});
