/** What hone's tarball has: all that runs, nothing else, and a program of another project finds its types and its commands. */
import { readdirSync, readFileSync, rmSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { honeIn, typeErrors, unpacked, writePrograms } from "./support.js";

let folder: string;
let files: string[];
let bytes: number;

interface Manifest {
  readonly version: string;
  readonly bin: Record<string, string>;
  readonly exports: Record<string, { types: string; default: string }>;
  readonly scripts: Record<string, string>;
  readonly dependencies: Record<string, string>;
  readonly devDependencies?: unknown;
  readonly optionalDependencies: Record<string, string>;
  readonly peerDependencies: Record<string, string>;
  readonly peerDependenciesMeta: Record<string, { optional: boolean }>;
  readonly bundleDependencies: string[];
}
let manifest: Manifest;
/** Without the packages that come inside. */
let own: string[];
const inside = (path: string) => join(folder, "node_modules/@hone-rl/hone", path);
const jsonOf = (path: string) => JSON.parse(readFileSync(inside(path), "utf8"));

beforeAll(async () => {
  ({ folder, files, bytes } = await unpacked());
  own = files.filter((path) => !path.startsWith("node_modules/"));
  manifest = jsonOf("package.json");
  writePrograms(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the package", () => {
  it("has what its package.json names, and no source, test or benchmark", () => {
    const { bin, exports, scripts } = manifest;
    const named = [bin.hone, exports["."]?.types, exports["."]?.default].map((path) => path?.replace(/^\.\//, ""));
    const run = Object.values(scripts).map((script) => script.replace(/^node /, ""));
    expect(Object.keys(scripts)).toEqual(["preinstall", "install"]);
    expect(own).toEqual(expect.arrayContaining([...named, ...run]));
    expect(
      own.filter((path) => /(^|\/)tests?\/|^src\/|^bench|^dist\/bench|\.test\.|\.map$|buildinfo|pycache/.test(path)),
    ).toEqual([]);
  });

  it("has licence, notices and changes", () => {
    expect(own).toEqual(expect.arrayContaining(["LICENSE", "THIRD-PARTY.md", "CHANGELOG.md"]));
    const licence = readFileSync(inside("LICENSE"), "utf8");
    expect(licence).toMatch(/Apache License\s+Version 2\.0, January 2004/);
  });

  it("names the packages of compiled files, of its own version, which npm leaves out where they do not fit", () => {
    const { version, optionalDependencies } = manifest;
    const platforms = Object.keys(optionalDependencies).filter((name) => name.startsWith("@hone-rl/"));
    expect(platforms.sort()).toEqual([
      "@hone-rl/darwin-arm64",
      "@hone-rl/linux-arm64",
      "@hone-rl/linux-x64",
      "@hone-rl/win32-x64",
    ]);
    for (const name of platforms) expect(optionalDependencies[name]).toBe(version);
    expect(manifest.devDependencies).toBeUndefined();
  });

  it("lets npm install llama.cpp's library for the CPU alone: hone fetches those for GPUs", () => {
    const { optionalDependencies, peerDependencies } = manifest;
    const version = jsonOf("node_modules/node-llama-cpp/package.json").version;
    expect(optionalDependencies["@node-llama-cpp/linux-x64"]).toBe(version);
    const names = Object.keys({ ...optionalDependencies, ...peerDependencies });
    expect(names.filter((name) => /cuda|vulkan/.test(name))).toEqual([]);
  });

  it("brings inside what would download or compile when it is installed, with nothing that npm runs", () => {
    const { bundleDependencies, dependencies } = manifest;
    expect(bundleDependencies.sort()).toEqual(["better-sqlite3", "node-llama-cpp"]);
    for (const name of bundleDependencies) {
      expect(jsonOf(`node_modules/${name}/package.json`).version).toBe(dependencies[name]);
    }
    const manifests = files.filter((path) => /^node_modules\/.*package\.json$/.test(path)).map(jsonOf);
    const packages = manifests.filter(({ name, version }) => name !== undefined && version !== undefined);
    expect(packages.length).toBeGreaterThan(50);
    expect(packages.filter(({ scripts }) => scripts !== undefined).map(({ name }) => name)).toEqual([]);
    // THIRD-PARTY.md says so.
    const licences = new Set(packages.map(({ license }) => license));
    licences.delete("(BSD-2-Clause OR MIT OR Apache-2.0)");
    expect([...licences].sort()).toEqual(["BlueOak-1.0.0", "ISC", "MIT"]);
    // npm compiles a package with a binding.gyp and no script.
    expect(jsonOf("node_modules/better-sqlite3/package.json")).toMatchObject({ gypfile: false });
    // No source, which scripts/sources.mjs fetches where it has to compile; no binary of the machine that packed.
    expect(files.filter((path) => /\.bundle$|\/sqlite3\.[ch]$|\.map$/.test(path))).toEqual([]);
    expect(files.filter((path) => path.endsWith(".node"))).toEqual([]);
  });

  it("is of 15 MB at most, and names the versions of what compiles it elsewhere", () => {
    expect(bytes).toBeLessThan(15e6);
    expect(Object.keys(jsonOf("package.json").sources)).toEqual(["node-addon-api", "node-gyp"]);
  });

  it("has all of Python's side but its tests", () => {
    for (const folder of ["native/learner", "native/tracker"]) {
      const there = readdirSync(join(packageRoot, folder), { withFileTypes: true }).filter((entry) => entry.isFile());
      expect(files).toEqual(expect.arrayContaining(there.map(({ name }) => `${folder}/${name}`)));
    }
  });

  it("has what its code reads and starts besides: Python's packages, programs, modules of Python", () => {
    const sources = readdirSync(join(packageRoot, "src"), { recursive: true, encoding: "utf8" });
    const texts = sources
      .filter((path) => /\.m?ts$/.test(path))
      .map((path) => readFileSync(join(packageRoot, "src", path), "utf8"));
    const named = texts.flatMap((text) =>
      [...text.matchAll(/packageRoot, "((?:native|scripts|models|dist)\/[\w./-]+\.\w+)"/g)].map(([, path]) => path),
    );
    expect(named.length).toBeGreaterThan(0);
    // Each is started as `python -m`.
    const modules = ["learner", "tracker"].map((name) => `native/${name}/__main__.py`);
    expect(files).toEqual(expect.arrayContaining([...named, ...modules, "pyproject.toml", "requirements.lock"]));
  });

  it("gives programs its types, which find their mistakes", () => {
    const errors = typeErrors(folder);
    expect(errors).toContain("wrong.ts(3,");
    expect(errors).toContain("wrong.ts(4,");
    expect(errors).not.toMatch(/(task|program)\.ts\(/);
    unlinkSync(join(folder, "wrong.ts"));
    expect(typeErrors(folder)).toBe("");
  });

  it("runs its commands, and a program that plays the model that comes with it, from there", () => {
    const listed = honeIn(folder, "rollout", "--task", "task.ts", "--help");
    expect(listed.stdout).toContain("--set count=NUMBER  how many (default: 4)");
    const played = honeIn(folder, "rollout", "--task", "task.ts", "--expert", "--group-size", "1", "--json");
    expect(played.status, played.stderr).toBe(0);
    expect(JSON.parse(played.stdout)).toMatchObject({ rollouts: 4, success: 1 });
    const ran = honeIn(folder, "exec", "program.ts");
    expect(ran.status, ran.stderr).toBe(0);
    expect(JSON.parse(ran.stdout)).toEqual({ ids: ["echo-5-0", "echo-5-1"], lengths: [2, 2], n: 1 });
  });
});
