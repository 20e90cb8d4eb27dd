/**
 * The tarball, installed with npm in an empty folder by somebody with an empty home: dependencies, addon, types, a program, and
 * from `hone init` to a trained adapter.
 */
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, unlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureLearnerPython } from "../support/python.js";
import { honeIn, pack, typeErrors, writePrograms } from "./support.js";

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
/** Installed where nothing else was, then begun with `hone init`. */
beforeAll(() => {
  mkdirSync(folder);
  ({ tarball } = pack(base));
  const installed = run(folder, "npm", "install", "--no-audit", "--no-fund", tarball);
  expect(installed.status, installed.stderr).toBe(0);
  const made = run(folder, "npx", "--no", "--", "hone", "init", "--yes");
  expect(made.status, made.stderr).toBe(0);
}, 1_800_000);

const last = (stdout: string) => JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");

describe("npm install of the tarball in an empty folder", () => {
  it("puts the command where npx finds it", () => {
    const { status, stdout } = run(folder, "npx", "--no", "--", "hone", "--help");
    expect(status).toBe(0);
    expect(stdout).toContain("npx --no -- hone <command>");
    expect(stdout).toContain("train");
  });

  it("gives programs its types, and runs them", () => {
    writePrograms(folder, "echo.ts");
    unlinkSync(join(folder, "wrong.ts"));
    expect(typeErrors(folder)).toBe("");
    const ran = honeIn(folder, "exec", "program.ts");
    expect(ran.status, ran.stderr).toBe(0);
    expect(JSON.parse(ran.stdout)).toMatchObject({ n: 1 });
  });

  it("trains on the email task", async () => {
    const python = await ensureLearnerPython();
    expect(honeIn(folder, "build-db", "--mailboxes", "10").status).toBe(0);
    const small = [
      "--groups-per-step",
      "2",
      "--group-size",
      "4",
      "--max-turns",
      "3",
      "--validate-n",
      "2",
      "--steps",
      "1",
    ];
    const asked = ["train", "--task", "email", "--gpu", "off", "--python", python, "--json", ...small];
    const { status, stdout, stderr } = honeIn(folder, ...asked);
    expect(status, stderr).toBe(0);
    expect(last(stdout)).toMatchObject({ steps: 1 });
  });
});

describe("hone init", () => {
  it("then makes it a project whose task checks out and trains, with messages that name what works there", async () => {
    const python = await ensureLearnerPython();
    const checked = run(folder, "npm", "run", "--silent", "check", "--", "--json");
    expect(checked.status, checked.stderr).toBe(0);
    expect(last(checked.stdout)).toMatchObject({ task: "capitals", findings: [] });
    // The learner's Python is the one of the tests; nothing else is from this machine.
    const trained = run(folder, "npm", "run", "--silent", "train", "--", "--gpu", "off", "--python", python, "--json");
    expect(trained.status, trained.stderr).toBe(0);
    expect(last(trained.stdout)).toMatchObject({ steps: 3 });
    expect(existsSync(join(folder, ".hone/capitals"))).toBe(true);
    const listed = run(folder, "npx", "--no", "--", "hone", "rollouts", "--step", "1");
    expect(listed.status, listed.stderr).toBe(0);
    const wrong = run(folder, "npm", "run", "--silent", "hone", "--", "trian");
    expect(wrong.stderr).toContain("did you mean train?");
    expect(`${checked.stderr}${trained.stderr}${wrong.stderr}`).not.toMatch(/\byarn\b/);
  });

  it("makes a new folder too, which npm install fills from the tarball", () => {
    const project = join(base, "new");
    const made = honeIn(folder, "init", project, "--package", tarball, "--yes");
    expect(made.status, made.stderr).toBe(0);
    const { dependencies } = JSON.parse(readFileSync(join(project, "package.json"), "utf8"));
    expect(dependencies["@hone-rl/hone"]).toMatch(/^file:\.\.\/hone-rl-hone-.*\.tgz$/);
    // What the install scripts compile has been compiled above.
    const installed = run(project, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts");
    expect(installed.status, installed.stderr).toBe(0);
    const shown = run(project, "npx", "--no", "--", "hone", "rollout", "--help");
    expect(shown.stdout).toContain("npx --no -- hone rollout");
  });
});
