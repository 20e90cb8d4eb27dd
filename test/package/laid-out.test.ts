/** The folder that hone's tarball is made of; package.full.test.ts packs and installs it. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

it("has hone, and whole the packages inside that npm is not asked for", { timeout: 300_000 }, async () => {
  const { layOutHone } = await import(join(packageRoot, "scripts/package/hone.mjs"));
  const parent = mkdtempSync(join(tmpdir(), "hone-laid-out-"));
  try {
    const folder = join(parent, "hone");
    await layOutHone(folder);
    const { bundleDependencies } = JSON.parse(readFileSync(join(folder, "package.json"), "utf8"));
    for (const inside of ["", ...bundleDependencies.map((name: string) => join("node_modules", name))]) {
      const { main = "dist/src/cli.js" } = JSON.parse(readFileSync(join(folder, inside, "package.json"), "utf8"));
      expect(existsSync(join(folder, inside, main)), `${inside}/${main}`).toBe(true);
    }
  } finally {
    rmSync(parent, { recursive: true });
  }
});
