/** A new project: what it has, and that nothing is ever overwritten. */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeEach, describe, expect, it } from "vitest";
import { platformPackage } from "../../src/core/util/binaries.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { dependencyOf, groundOf, nameOf, writeProject } from "../../src/hone/init/init.js";
import { typeErrors } from "../package/support.js";

const base = mkdtempSync(join(tmpdir(), "hone-init-"));
afterAll(() => rmSync(base, { recursive: true, force: true }));

let folder: string;
let count = 0;
beforeEach(() => {
  folder = join(base, `quiz-${count++}`);
});

const project = { name: "quiz", hone: "file:../hone.tgz", model: "tiny" };
const files = [
  ".gitignore",
  "README.md",
  "hone.config.json",
  "package.json",
  "scenarios.jsonl",
  "task.ts",
  "tsconfig.json",
];
const read = (name: string) => readFileSync(join(folder, name), "utf8");

function hone(...args: string[]) {
  const cli = join(packageRoot, "dist/src/cli.js");
  const cwd = existsSync(folder) ? folder : base;
  return spawnSync(process.execPath, [cli, ...args], { cwd, encoding: "utf8", input: "" });
}

describe("hone init", () => {
  it("makes a project where hone was unpacked, which goes on without a network", () => {
    mkdirSync(join(folder, "node_modules"), { recursive: true });
    mkdirSync(join(folder, "hub"));
    const dependencies = { "@hone-rl/hone": "0.1.0" };
    writeFileSync(join(folder, "package.json"), JSON.stringify({ private: true, type: "module", dependencies }));
    const offline = { hfOffline: true, hfCache: "hub" };
    writeFileSync(join(folder, "hone.config.json"), JSON.stringify(offline));
    const { status, stdout, stderr } = hone("init", "--yes");
    expect(status, stderr).toBe(0);
    expect(stdout).not.toContain("npm install");
    expect(JSON.parse(read("hone.config.json"))).toMatchObject({ ...offline, task: "task.ts", steps: 3 });
    expect(JSON.parse(read("package.json"))).toMatchObject({ dependencies, scripts: { check: "hone check" } });
  });

  it.each([
    ["npm", ["package-lock.json"]],
    ["pnpm", ["pnpm-lock.yaml", "pnpm-workspace.yaml"]],
    ["Bun", ["bun.lock"]],
    ["Yarn", ["yarn.lock", ".yarnrc.yml", ".yarn"]],
  ])("makes a project where %s has installed hone", (_, made) => {
    mkdirSync(folder);
    writeFileSync(join(folder, "package.json"), JSON.stringify({ dependencies: { "@hone-rl/hone": "0.1.0" } }));
    for (const name of ["node_modules", ...made]) writeFileSync(join(folder, name), "");
    expect(writeProject(groundOf(folder), project)).toEqual(files);
  });

  it("leaves a config file alone that has other options", () => {
    mkdirSync(folder);
    writeFileSync(join(folder, "package.json"), JSON.stringify({ dependencies: { "@hone-rl/hone": "0.1.0" } }));
    writeFileSync(join(folder, "hone.config.json"), JSON.stringify({ hfOffline: true, steps: 9 }));
    const { status, stderr } = hone("init", "--yes");
    expect([status, stderr]).toEqual([2, expect.stringContaining("it has hone.config.json")]);
  });

  it("makes a project whose task checks out, with types, and names a real model", () => {
    const tarball = join(base, "hone-rl-hone-0.1.0.tgz");
    writeFileSync(tarball, "");
    const { status, stdout, stderr } = hone("init", folder, "--package", tarball, "--yes", "--json");
    expect(status, stderr).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      folder,
      files: [...files].sort(),
      package: "file:../hone-rl-hone-0.1.0.tgz",
      model: "tiny",
    });
    expect(readdirSync(folder).sort()).toEqual([...files].sort());
    expect(stderr).toContain("--model qwen2.5-0.5b");
    expect(JSON.parse(read("package.json"))).toEqual({
      name: nameOf(folder),
      private: true,
      type: "module",
      scripts: { check: "hone check", train: "hone train", hone: "hone" },
      dependencies: { "@hone-rl/hone": "file:../hone-rl-hone-0.1.0.tgz" },
    });
    expect(read("README.md").trimEnd().split("\n")).toHaveLength(10);
    expect(read("README.md")).not.toMatch(/npx hone|yarn/);
    expect(read("scenarios.jsonl").trimEnd().split("\n")).toHaveLength(10);
    mkdirSync(join(folder, "node_modules/@hone-rl"), { recursive: true });
    symlinkSync(packageRoot, join(folder, "node_modules/@hone-rl/hone"));
    const checked = hone("check", "--json");
    expect(checked.status, checked.stderr).toBe(0);
    expect(JSON.parse(checked.stdout)).toMatchObject({
      task: "capitals",
      scenarios: { train: 8, test: 2 },
      findings: [],
    });
    const shown = hone("rollout", "--expert", "--group-size", "1", "--json");
    expect(JSON.parse(shown.stdout)).toMatchObject({ rollouts: 10, success: 1 });
    const tsc = spawnSync(join(packageRoot, "node_modules/.bin/tsc"), ["-p", folder], { encoding: "utf8" });
    expect(tsc.stdout).toBe("");
    expect(typeErrors(folder)).toBe("");
  });

  it("installs the platform's tarball too, where it lies beside hone's", () => {
    const beside = join(base, `${platformPackage.slice(1).replace("/", "-")}-9.9.9.tgz`);
    for (const file of [join(base, "hone-rl-hone-9.9.9.tgz"), beside]) writeFileSync(file, "");
    const { status, stderr } = hone("init", folder, "--package", join(base, "hone-rl-hone-9.9.9.tgz"), "--yes");
    expect(status, stderr).toBe(0);
    expect(JSON.parse(read("package.json"))).toMatchObject({
      dependencies: { "@hone-rl/hone": "file:../hone-rl-hone-9.9.9.tgz" },
      optionalDependencies: { [platformPackage]: `file:../${basename(beside)}` },
    });
  });

  it.each([
    ["npm install", {}],
    ["npm init", { type: "commonjs" }],
  ])("goes into a folder where npm has just installed hone, and keeps what package.json has of %s", (_, type) => {
    mkdirSync(join(folder, "node_modules"), { recursive: true });
    writeFileSync(join(folder, "package-lock.json"), "{}");
    const made = {
      name: "mine",
      ...type,
      dependencies: { "@hone-rl/hone": "file:../x.tgz", zod: "4" },
      scripts: { test: "exit 1" },
    };
    writeFileSync(join(folder, "package.json"), JSON.stringify(made));
    writeProject(groundOf(folder), { ...project, hone: "file:../x.tgz", model: "qwen2.5-0.5b" });
    const scripts = { check: "hone check", train: "hone train --model qwen2.5-0.5b", hone: "hone", test: "exit 1" };
    expect(JSON.parse(read("package.json"))).toEqual({ ...made, type: "module", scripts });
    expect(() => groundOf(folder)).toThrow("is not empty");
  });

  it.each([
    ["task.ts", "it has task.ts; give an empty folder"],
    ["package.json", "it has package.json; give an empty folder"],
    [".env", "it has .env; give"],
  ])("refuses a folder that has %s", (name, message) => {
    mkdirSync(folder);
    writeFileSync(join(folder, name), "{}");
    const { status, stderr } = hone("init", "--yes", "--package", "1.2.3");
    expect([status, stderr]).toEqual([2, expect.stringContaining(message)]);
    expect(stderr.trimEnd()).not.toContain("\n");
    expect(readdirSync(folder)).toEqual([name]);
  });

  it("says what it needs, before it writes anything", () => {
    const asks = hone("init", folder);
    expect([asks.status, asks.stderr]).toEqual([2, expect.stringContaining("init asks, and there is no terminal")]);
    const needs = hone("init", folder, "--yes");
    expect([needs.status, needs.stderr]).toEqual([2, expect.stringContaining("init needs --package")]);
    expect(() => dependencyOf("nowhere.tgz", folder)).toThrow("--package nowhere.tgz: give the path of the tarball");
    expect(() => dependencyOf("hone", folder)).toThrow("--package hone:");
    expect(existsSync(folder)).toBe(false);
    expect(dependencyOf("@hone-rl/hone@1.2.3", folder)).toBe("1.2.3");
  });
});
