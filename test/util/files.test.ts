import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readdirSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, it } from "vitest";
import { writeDurably } from "../../src/util/files.js";
import { packageRoot } from "../../src/util/paths.js";

const compiled = pathToFileURL(join(packageRoot, "dist/src/util/files.js")).href;

it("two processes that replace a file at once both succeed, and leave nothing beside it", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-files-"));
  const file = join(folder, "seal");
  const program = (text: string) => `
    import { writeDurably } from ${JSON.stringify(compiled)};
    for (let i = 0; i < 300; i++) writeDurably(${JSON.stringify(file)}, ${JSON.stringify(text)});`;
  const texts = ["one".repeat(100), "two".repeat(100)];
  const ends = texts.map(async (text) => {
    const child = spawn(process.execPath, ["--input-type=module", "-e", program(text)], { stdio: "ignore" });
    return (await once(child, "close"))[0];
  });
  expect(await Promise.all(ends)).toEqual([0, 0]);
  expect(texts).toContain(readFileSync(file, "utf8"));
  expect(readdirSync(folder)).toEqual(["seal"]);
});

it("a file that cannot be replaced leaves nothing beside it", () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-files-"));
  mkdirSync(join(folder, "seal"));
  expect(() => writeDurably(join(folder, "seal"), "text")).toThrow();
  expect(readdirSync(folder)).toEqual(["seal"]);
});
