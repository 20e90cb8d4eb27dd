/**
 * The tarball, installed with npm in empty folders by somebody with an empty home: dependencies, addon, types, a program, and
 * from `hone init` to a trained adapter.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureLearnerPython } from "../support/python.js";
import { aPackage, honeIn, pack, typeErrors, writePrograms } from "./support.js";

const base = mkdtempSync(join(tmpdir(), "hone-install-"));
const folder = join(base, "project");
afterAll(() => rmSync(base, { recursive: true, force: true }));

// The test's own runner must not be taken for the one that the stranger has.
const { npm_config_user_agent: _, ...environment } = process.env;
const env = { ...environment, HOME: join(base, "home") };

function run(cwd: string, program: string, ...args: string[]) {
  const { status, stdout, stderr } = spawnSync(program, args, { cwd, encoding: "utf8", env });
  return { status, stdout, stderr };
}

let tarball: string;
beforeAll(() => {
  mkdirSync(folder);
  ({ tarball } = pack(base));
});

const last = (stdout: string) => JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");

describe("npm install of the tarball", () => {
  beforeAll(() => {
    writeFileSync(join(folder, "package.json"), aPackage);
    const { status, stderr } = run(folder, "npm", "install", "--no-audit", "--no-fund", tarball);
    expect(status, stderr).toBe(0);
    writePrograms(folder);
    unlinkSync(join(folder, "wrong.ts"));
  }, 1_800_000);

  it("puts the command where npx finds it", () => {
    const { status, stdout } = run(folder, "npx", "--no", "hone", "--help");
    expect(status).toBe(0);
    expect(stdout).toContain("npx --no hone <command>");
    expect(stdout).toContain("train");
  });

  it("gives programs its types, and runs them", () => {
    expect(typeErrors(folder)).toBe("");
    const ran = honeIn(folder, "exec", "program.ts");
    expect(ran.status, ran.stderr).toBe(0);
    expect(JSON.parse(ran.stdout)).toMatchObject({ n: 1 });
  });

  it("trains", async () => {
    const python = await ensureLearnerPython();
    expect(honeIn(folder, "build-db", "--mailboxes", "10").status).toBe(0);
    const small = ["--groups", "2", "--group", "4", "--max-turns", "3", "--validate-n", "2", "--steps", "1"];
    const { status, stdout, stderr } = honeIn(folder, "train", "--gpu", "off", "--python", python, "--json", ...small);
    expect(status, stderr).toBe(0);
    expect(last(stdout)).toMatchObject({ steps: 1 });
  });
});

describe("a project that begins with hone init", () => {
  /** In the project; the learner's Python is the one of the tests, and nothing else is from this machine. */
  async function trains(project: string) {
    const python = await ensureLearnerPython();
    const checked = run(project, "npm", "run", "--silent", "check", "--", "--json");
    expect(checked.status, checked.stderr).toBe(0);
    expect(last(checked.stdout)).toMatchObject({ task: "capitals", findings: [] });
    const trained = run(project, "npm", "run", "--silent", "train", "--", "--gpu", "off", "--python", python, "--json");
    expect(trained.status, trained.stderr).toBe(0);
    expect(last(trained.stdout)).toMatchObject({ steps: 3 });
    expect(existsSync(join(project, ".hone/capitals"))).toBe(true);
    // What the messages tell to type works.
    const scenarios = run(project, "npx", "--no", "hone", "rollouts", "--step", "1");
    expect(scenarios.status, scenarios.stderr).toBe(0);
    const wrong = run(project, "npm", "run", "--silent", "hone", "--", "trian");
    expect(wrong.stderr).toContain("did you mean train?");
    expect(`${checked.stderr}${trained.stderr}${wrong.stderr}`).not.toMatch(/\byarn\b/);
  }

  it("where npm has installed it in an empty folder", async () => {
    const project = join(base, "installed");
    mkdirSync(project);
    const installed = run(project, "npm", "install", "--no-audit", "--no-fund", tarball);
    expect(installed.status, installed.stderr).toBe(0);
    const made = run(project, "npx", "--no", "hone", "init", "--yes");
    expect(made.status, made.stderr).toBe(0);
    expect(existsSync(join(project, "task.ts"))).toBe(true);
    await trains(project);
  }, 1_800_000);

  it("in a new folder, which npm install then fills", async () => {
    const project = join(base, "new");
    const made = honeIn(folder, "init", project, "--package", tarball, "--yes");
    expect(made.status, made.stderr).toBe(0);
    const { dependencies } = JSON.parse(readFileSync(join(project, "package.json"), "utf8"));
    expect(dependencies["@hone-rl/hone"]).toMatch(/^file:\.\.\/hone-rl-hone-.*\.tgz$/);
    const installed = run(project, "npm", "install", "--no-audit", "--no-fund");
    expect(installed.status, installed.stderr).toBe(0);
    await trains(project);
  }, 1_800_000);
});
