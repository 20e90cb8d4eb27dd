/**
 * The tarball, installed with npm in an empty folder by somebody with an empty home: dependencies, addon, types, a program, and
 * from `hone init` to a trained adapter.
 */
import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, realpathSync, unlinkSync } from "node:fs";
import { rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { pack, typeErrors, writePrograms } from "./support.js";

const base = realpathSync(mkdtempSync(join(tmpdir(), "hone-install-")));
const folder = join(base, "project");
// PyTorch and the packages are tens of thousands of files.
afterAll(() => rm(base, { recursive: true, force: true }), 600_000);

// The test's own runner must not be taken for the one that the stranger has.
const { npm_config_user_agent: _, XDG_CACHE_HOME: __, ...environment } = process.env;
// All that programs keep outside of the project, caches of npm and pip too, is removed with the rest.
const env = { ...environment, HOME: join(base, "home"), TMPDIR: join(base, "tmp") };

interface Ran {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Not spawnSync: a worker of Vitest that hears nothing for minutes is taken for dead. */
function run(cwd: string, program: string, ...args: string[]): Promise<Ran> {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
    let stdout = "";
    let stderr = "";
    child.stdout.setEncoding("utf8").on("data", (text: string) => {
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      stderr += text;
    });
    child.once("error", reject);
    child.once("close", (status) => resolve({ status, stdout, stderr }));
  });
}

const hone = (...args: string[]) => run(folder, "npx", "--no", "--", "hone", ...args);

let tarball: string;
/** Installed where nothing else was, then begun with `hone init`. */
beforeAll(async () => {
  for (const made of ["home", "tmp", "project"]) mkdirSync(join(base, made));
  ({ tarball } = await pack(base));
  const installed = await run(folder, "npm", "install", "--no-audit", "--no-fund", tarball);
  expect(installed.status, installed.stderr).toBe(0);
  const made = await hone("init", "--yes");
  expect(made.status, made.stderr).toBe(0);
}, 1_800_000);

const last = (stdout: string) => JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "");

describe("npm install of the tarball in an empty folder", () => {
  it("puts the command where npx finds it", async () => {
    const { status, stdout } = await hone("--help");
    expect(status).toBe(0);
    expect(stdout).toContain("npx --no -- hone <command>");
    expect(stdout).toContain("train");
  });

  it("gives programs its types, and runs them", async () => {
    writePrograms(folder, "echo.ts");
    unlinkSync(join(folder, "wrong.ts"));
    expect(typeErrors(folder)).toBe("");
    const ran = await hone("exec", "program.ts");
    expect(ran.status, ran.stderr).toBe(0);
    expect(JSON.parse(ran.stdout)).toMatchObject({ n: 1 });
  });

  it("trains on the email task, with a Python environment that it makes first", async () => {
    const built = await hone("build-db", "--mailboxes", "10");
    expect(built.status, built.stderr).toBe(0);
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
    const { status, stdout, stderr } = await hone("train", "--task", "email", "--gpu", "off", "--json", ...small);
    expect(status, stderr).toBe(0);
    const python = /making a Python environment in (.*?)(?: with .*)?$/m.exec(stderr)?.[1] as string;
    expect(python).toMatch(/\/home\/\.cache\/hone\/python-\w{12}-cpu$/);
    expect(existsSync(join(python, "hone.json"))).toBe(true);
    expect(last(stdout)).toMatchObject({ steps: 1 });
  });
});

describe("hone init", () => {
  it("then makes it a project whose task checks out and trains, with messages that name what works there", async () => {
    const checked = await run(folder, "npm", "run", "--silent", "check", "--", "--json");
    expect(checked.status, checked.stderr).toBe(0);
    expect(last(checked.stdout)).toMatchObject({ task: "capitals", findings: [] });
    const trained = await run(folder, "npm", "run", "--silent", "train", "--", "--gpu", "off", "--json");
    expect(trained.status, trained.stderr).toBe(0);
    expect(last(trained.stdout)).toMatchObject({ steps: 3 });
    expect(existsSync(join(folder, ".hone/capitals"))).toBe(true);
    const listed = await hone("rollouts", "--step", "1");
    expect(listed.status, listed.stderr).toBe(0);
    const wrong = await run(folder, "npm", "run", "--silent", "hone", "--", "trian");
    expect(wrong.stderr).toContain("did you mean train?");
    expect(`${checked.stderr}${trained.stderr}${wrong.stderr}`).not.toMatch(/\byarn\b/);
  });

  it("makes a new folder too, which npm install fills from the tarball", async () => {
    const project = join(base, "new");
    const made = await hone("init", project, "--package", tarball, "--yes");
    expect(made.status, made.stderr).toBe(0);
    const { dependencies } = JSON.parse(readFileSync(join(project, "package.json"), "utf8"));
    expect(dependencies["@hone-rl/hone"]).toMatch(/^file:\.\.\/hone-rl-hone-.*\.tgz$/);
    // What the install scripts compile has been compiled above.
    const installed = await run(project, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts");
    expect(installed.status, installed.stderr).toBe(0);
    const shown = await run(project, "npx", "--no", "--", "hone", "rollout", "--help");
    expect(shown.stdout).toContain("npx --no -- hone rollout");
  });
});
