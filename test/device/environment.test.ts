/** Where the learner's Python environments lie: they outlive `npm ci`, and a pack is whole in its folder. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { homedir, tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  BUILDS,
  type Build,
  environmentFolder,
  extrasIn,
  interpreterIn,
  madeEnvironments,
  writeStamp,
} from "../../src/engine/device/environment.js";
import { packagesIn } from "../../src/engine/device/runtime.js";

let base: string;
beforeEach(() => {
  base = mkdtempSync(join(tmpdir(), "hone-environment-"));
});
afterEach(() => rmSync(base, { recursive: true }));

/** A copy of hone with these packages locked. */
function copy(name: string, packages: string): string {
  const root = join(base, name);
  mkdirSync(root, { recursive: true });
  writeFileSync(join(root, "requirements.lock"), packages);
  return root;
}

it("is in the user's cache: one for each build and set of versions, whatever project or checkout asks", () => {
  const one = environmentFolder("cpu", copy("one/node_modules/@hone-rl/hone", "torch==1"), {});
  expect(one.startsWith(join(homedir(), ".cache/hone/python-"))).toBe(true);
  expect(environmentFolder("cpu", copy("checkout", "torch==1"), {})).toBe(one);
  expect(environmentFolder("cuda13", copy("checkout", "torch==1"), {})).not.toBe(one);
  expect(environmentFolder("cpu", copy("newer", "torch==2"), {})).not.toBe(one);
  const elsewhere = environmentFolder("cpu", copy("four", "torch==1"), { XDG_CACHE_HOME: join(base, "cache") });
  expect(elsewhere.startsWith(join(base, "cache/hone/python-"))).toBe(true);
});

it("is in an unpacked copy itself", () => {
  const root = copy("unpacked/node_modules/@hone-rl/hone", "torch");
  mkdirSync(join(root, "wheels"));
  expect(environmentFolder("cpu", root, {}).startsWith(`${root}/python-`)).toBe(true);
});

describe("the environments that there are", () => {
  const cache = process.env.XDG_CACHE_HOME;
  beforeEach(() => {
    process.env.XDG_CACHE_HOME = base;
  });
  afterEach(() => {
    if (cache === undefined) delete process.env.XDG_CACHE_HOME;
    else process.env.XDG_CACHE_HOME = cache;
  });

  function made(build: Build, extras: string[]): string {
    const folder = environmentFolder(build);
    mkdirSync(join(folder, "bin"), { recursive: true });
    writeFileSync(interpreterIn(folder), "");
    writeStamp(folder, extras);
    return folder;
  }

  it("are those that were finished, with the extras that are asked for, one for a GPU first", () => {
    expect(madeEnvironments()).toEqual([]);
    mkdirSync(environmentFolder("cuda12"), { recursive: true });
    const cpu = made("cpu", ["dev", "unsloth"]);
    expect(madeEnvironments()).toEqual([cpu]);
    const cuda = made("cuda13", ["unsloth"]);
    expect(madeEnvironments()).toEqual([cuda, cpu]);
    expect(madeEnvironments(["cpu", "cuda12"])).toEqual([cpu]);
    expect(madeEnvironments(BUILDS, ["unsloth", "dev"])).toEqual([cpu]);
    expect(extrasIn(cpu)).toEqual(["dev", "unsloth"]);
  });

  it("are searched for packages together", () => {
    const sites = [made("cuda13", []), made("cpu", [])].map((folder) => join(folder, "lib/python3.12/site-packages"));
    for (const site of sites) mkdirSync(site, { recursive: true });
    expect(packagesIn().sites).toEqual(sites);
  });
});
