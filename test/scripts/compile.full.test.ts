/** When the scripts of package.json ask the compiler. */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hone-compile-"));
  for (const name of ["tsconfig.json", "tsconfig.build.json", "package.json", "yarn.lock"]) put(name, "{}");
  for (const name of ["src/a.ts", "src/room/b.ts", "bench/c.ts", "test/d.ts", "native/engine/e.cc"])
    put(name, "export {};");
  mkdirSync(join(folder, "scripts"));
  copyFileSync(join(packageRoot, "scripts/compile.mjs"), join(folder, "scripts/compile.mjs"));
  compiler(0);
});
afterEach(() => rmSync(folder, { recursive: true }));

function put(name: string, text: string): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}

/** One that notes that it was asked, and beside it that of the addon. */
function compiler(status: number): void {
  const notes = 'require("node:fs").appendFileSync("asked", "asked\\n");';
  put("node_modules/typescript/bin/tsc", `${notes} process.exit(${status});`);
  put("scripts/build-addon.mjs", 'import { appendFileSync } from "node:fs"; appendFileSync("addon", "asked\\n");');
}

/** How often the compiler has been asked by now. */
function compile(status = 0): number {
  const result = spawnSync(process.execPath, [join(folder, "scripts/compile.mjs")], { encoding: "utf8" });
  expect(result.status, result.stderr).toBe(status);
  const times = (name: string) => readFileSync(join(folder, name), "utf8").trim().split("\n").length;
  expect(times("addon")).toBe(times("asked"));
  return times("asked");
}

describe("scripts/compile.mjs", () => {
  it("asks the compiler once for the same files", () => {
    expect([compile(), compile()]).toEqual([1, 1]);
  });

  it("asks it again when something has changed", () => {
    const changes: readonly (readonly [string, () => void])[] = [
      ["a source has changed", () => put("src/room/b.ts", "export const changed = 1;")],
      ["a source of the addon has changed", () => put("native/engine/e.cc", "int changed;")],
      ["a source is new", () => put("bench/new.ts", "export {};")],
      ["a source is gone", () => rmSync(join(folder, "test/d.ts"))],
      ["the compiler's settings have changed", () => put("tsconfig.json", "{ }")],
      ["packages have changed", () => put("yarn.lock", "another")],
      ["dist/ is gone", () => rmSync(join(folder, "dist"), { recursive: true })],
    ];
    let asked = compile();
    for (const [what, change] of changes) {
      change();
      expect([what, compile()]).toEqual([what, ++asked]);
    }
    expect(compile()).toBe(asked);
  });

  it("fails as the compiler does, and then asks it again", () => {
    compiler(2);
    expect([compile(2), compile(2)]).toEqual([1, 2]);
  });
});
