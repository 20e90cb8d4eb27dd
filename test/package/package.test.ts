/** What `npm pack` packs: all that runs, nothing else, and a program of another project finds its types and its commands. */
import { readdirSync, readFileSync, rmSync, unlinkSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/util/paths.js";
import { honeIn, typeErrors, unpacked, writePrograms } from "./support.js";

let folder: string;
let files: string[];

beforeAll(() => {
  ({ folder, files } = unpacked());
  writePrograms(folder);
});
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the package", () => {
  it("has what its package.json names, and no source, test or benchmark", () => {
    const { bin, exports, scripts } = JSON.parse(readFileSync(join(packageRoot, "package.json"), "utf8")) as {
      bin: Record<string, string>;
      exports: Record<string, { types: string; default: string }>;
      scripts: Record<string, string>;
    };
    const named = [bin.hone, exports["."]?.types, exports["."]?.default].map((path) => path?.replace(/^\.\//, ""));
    const run = ["preinstall", "install", "postinstall"].map((name) => scripts[name]?.replace(/^node /, ""));
    expect(files).toEqual(expect.arrayContaining([...named, ...run]));
    expect(
      files.filter((path) => /(^|\/)tests?\/|^src\/|^bench|^dist\/bench|\.test\.|\.map$|buildinfo|pycache/.test(path)),
    ).toEqual([]);
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
