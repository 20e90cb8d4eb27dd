/** Where the learner's Python environment lies: it outlives `npm ci`, and a pack is whole in its folder. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { environmentFolder } from "../../src/device/index.js";

let base: string;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "hone-environment-"));
});
afterEach(() => rmSync(base, { recursive: true }));

/** A copy of hone with these requirements. */
function copy(name: string, requirements: string): string {
  const root = join(base, name);
  mkdirSync(join(root, "native/learner"), { recursive: true });
  writeFileSync(join(root, "native/learner/requirements.txt"), requirements);
  return root;
}

it("is hone's folder in a checkout", () => {
  expect(environmentFolder(copy("hone", "torch"), {})).toBe(join(base, "hone/.venv"));
});

it("is the user's cache for a package of a project, shared by projects whose requirements are equal", () => {
  const installed = (project: string, requirements: string) =>
    copy(`${project}/node_modules/@hone-rl/hone`, requirements);
  const one = environmentFolder(installed("one", "torch==1"), {});
  expect(one.startsWith(join(homedir(), ".cache/hone/python-"))).toBe(true);
  expect(environmentFolder(installed("two", "torch==1"), {})).toBe(one);
  expect(environmentFolder(installed("three", "torch==2"), {})).not.toBe(one);
  const elsewhere = environmentFolder(installed("four", "torch==1"), { XDG_CACHE_HOME: join(base, "cache") });
  expect(elsewhere.startsWith(join(base, "cache/hone/python-"))).toBe(true);
});

it("is in an unpacked copy itself", () => {
  const root = copy("unpacked/node_modules/@hone-rl/hone", "torch");
  mkdirSync(join(root, "wheels"));
  expect(environmentFolder(root, {})).toBe(join(root, ".venv"));
});
