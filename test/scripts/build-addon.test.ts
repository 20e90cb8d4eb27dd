/** What is left of a build of the addon that failed, when npm has deleted the package. */
import { spawnSync } from "node:child_process";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { packageRoot } from "../../src/util/index.js";

const base = mkdtempSync(join(tmpdir(), "hone-build-addon-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

/** A package whose addon does not compile; hone's own headers and dependencies. */
function brokenPackage(): string {
  const folder = join(base, "package");
  for (const made of ["scripts", "native/engine", "build"]) mkdirSync(join(folder, made), { recursive: true });
  for (const shared of ["node_modules", "build/llama"]) symlinkSync(join(packageRoot, shared), join(folder, shared));
  for (const file of ["scripts/build-addon.mjs", "package.json"])
    copyFileSync(join(packageRoot, file), join(folder, file));
  const targets = [{ target_name: "hone_engine", sources: ["native/engine/port.cc"] }];
  writeFileSync(join(folder, "binding.gyp"), JSON.stringify({ targets }));
  writeFileSync(join(folder, "native/engine/port.cc"), "#error it must not compile\n");
  return folder;
}

function failedBuild(environment: Readonly<Record<string, string>>): { said: string; log: string } {
  const folder = brokenPackage();
  const script = join(folder, "scripts/build-addon.mjs");
  const env = { ...process.env, ...environment };
  const { status, stderr } = spawnSync(process.execPath, [script], { cwd: folder, env, encoding: "utf8" });
  expect(status, stderr).toBe(1);
  // As npm does.
  rmSync(folder, { recursive: true });
  return { said: stderr, log: /\(all of it: (.*)\)\n$/.exec(stderr)?.[1] ?? "" };
}

it("is one line with the reason, and a log that lasts", () => {
  const { said, log } = failedBuild({ XDG_CACHE_HOME: join(base, "cache") });
  expect(said).toMatch(
    /^hone: the engine's addon cannot be built: .*port\.cc.*it must not compile \(all of it: .*\)\n$/,
  );
  expect(log).toBe(join(base, "cache/hone/addon-build.log"));
  expect(readFileSync(log, "utf8")).toContain("gyp");
});

it("is a log in the temporary folder where the cache cannot be written", () => {
  const occupied = join(base, "occupied");
  writeFileSync(occupied, "");
  const { log } = failedBuild({ XDG_CACHE_HOME: occupied, TMPDIR: base });
  expect(log.startsWith(join(base, "hone-addon-"))).toBe(true);
  expect(readFileSync(log, "utf8")).toContain("it must not compile");
});
