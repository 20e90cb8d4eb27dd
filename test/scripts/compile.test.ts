/** When the scripts of package.json ask the compiler. */
import { spawnSync } from "node:child_process";
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/util/paths.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-compile-"));
  for (const name of ["tsconfig.json", "tsconfig.build.json", "package.json", "yarn.lock"]) put(name, "{}");
  for (const name of ["src/a.ts", "src/room/b.ts", "bench/c.ts", "test/d.ts"]) put(name, "export {};");
  mkdirSync(join(folder, "scripts"));
  copyFileSync(join(packageRoot, "scripts/compile.mjs"), join(folder, "scripts/compile.mjs"));
  compiler("exit 0");
});
afterEach(() => rmSync(folder, { recursive: true }));

function put(name: string, text: string): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}

/** One that notes that it was asked. */
function compiler(then: string): void {
  put("node_modules/.bin/tsc", `#!/bin/sh\necho asked >> asked\n${then}\n`);
  chmodSync(join(folder, "node_modules/.bin/tsc"), 0o755);
}

/** How often the compiler has been asked by now. */
function compile(status = 0): number {
  const result = spawnSync(process.execPath, [join(folder, "scripts/compile.mjs")], { encoding: "utf8" });
  expect(result.status, result.stderr).toBe(status);
  return readFileSync(join(folder, "asked"), "utf8").trim().split("\n").length;
}

describe("scripts/compile.mjs", () => {
  it("asks the compiler once for the same files", () => {
    expect([compile(), compile()]).toEqual([1, 1]);
  });

  it.each<[string, () => void]>([
    ["a source has changed", () => put("src/room/b.ts", "export const changed = 1;")],
    ["a source is new", () => put("bench/new.ts", "export {};")],
    ["a source is gone", () => rmSync(join(folder, "test/d.ts"))],
    ["the compiler's settings have changed", () => put("tsconfig.json", "{ }")],
    ["packages have changed", () => put("yarn.lock", "another")],
    ["dist/ is gone", () => rmSync(join(folder, "dist"), { recursive: true })],
  ])("asks it again when %s", (_, change) => {
    compile();
    change();
    expect([compile(), compile()]).toEqual([2, 2]);
  });

  it("fails as the compiler does, and then asks it again", () => {
    compiler("exit 2");
    expect([compile(2), compile(2)]).toEqual([1, 2]);
  });
});
