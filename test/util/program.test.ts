import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { hone, program, reinstall } from "../../src/core/util/program.js";

const checkout = { root: "/src/hone", script: "/src/hone/dist/src/cli.js", agent: "yarn/1.22.22 npm/? node/v20" };
const installed = {
  root: "/home/me/quiz/node_modules/@hone-rl/hone",
  script: "/home/me/quiz/node_modules/.bin/hone",
  agent: "npm/10.8.2 node/v20",
};

describe("what people are told to type", () => {
  it.each([
    ["a checkout", checkout, "yarn train", "yarn hone sft", "yarn start"],
    ["a checkout, without yarn", { ...checkout, agent: undefined }, "yarn train", "yarn hone sft", "yarn start"],
    ["a project with npm", installed, "npx --no -- hone train", "npx --no -- hone sft", "npx --no -- hone demo"],
    [
      "a project, by its path",
      { ...installed, agent: undefined },
      "npx --no -- hone train",
      "npx --no -- hone sft",
      "npx --no -- hone demo",
    ],
    [
      "a project with yarn",
      { ...installed, agent: "yarn/4.9.1 npm/?" },
      "yarn hone train",
      "yarn hone sft",
      "yarn hone demo",
    ],
    [
      "a project with pnpm",
      { ...installed, agent: "pnpm/10.1.0 npm/?" },
      "pnpm hone train",
      "pnpm hone sft",
      "pnpm hone demo",
    ],
    [
      "a project that links a checkout",
      { ...checkout, script: installed.script, agent: undefined },
      "npx --no -- hone train",
      "npx --no -- hone sft",
      "npx --no -- hone demo",
    ],
    [
      "a folder called node_modules that is not hone's",
      { ...checkout, script: "/x/node_modules/vitest/vitest.mjs" },
      "yarn train",
      "yarn hone sft",
      "yarn start",
    ],
  ])("in %s", (_, started, train, sft, demo) => {
    expect([hone("train", started), hone("sft", started), hone("demo", started)]).toEqual([train, sft, demo]);
  });

  it("to mend the installation", () => {
    expect(reinstall(checkout)).toBe("`yarn install --force` in hone");
    expect(reinstall(installed)).toBe("`npm rebuild @hone-rl/hone`");
    // Of the package managers that ask before they run what an installation compiles, the command that allows it.
    const by = (agent: string) => reinstall({ ...installed, agent });
    expect(by("pnpm/10.1.0 npm/? node/v24")).toBe("`pnpm approve-builds` and `pnpm rebuild @hone-rl/hone`");
    expect(by("bun/1.3.0 npm/? node/v24")).toBe("`bun pm trust @hone-rl/hone`");
    expect(by("npm/11.2.0 node/v24")).toBe("`npm rebuild @hone-rl/hone`");
    expect(program(installed)).toBe("npx --no -- hone");
  });
});

const folder = mkdtempSync(join(tmpdir(), "hone-program-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

describe("the command line of a project that has hone installed", () => {
  it("never tells its user to call yarn", () => {
    mkdirSync(join(folder, "node_modules/@hone-rl"), { recursive: true });
    mkdirSync(join(folder, "node_modules/.bin"));
    symlinkSync(packageRoot, join(folder, "node_modules/@hone-rl/hone"));
    const bin = join(folder, "node_modules/.bin/hone");
    symlinkSync("../@hone-rl/hone/dist/src/cli.js", bin);
    const run = (...args: string[]) => {
      const env = { ...process.env, npm_config_user_agent: "" };
      const { stdout, stderr } = spawnSync(process.execPath, [bin, ...args], { cwd: folder, encoding: "utf8", env });
      return stdout + stderr;
    };
    const texts = [["--help"], ["train", "--help", "all"], ["rollouts"], ["scenarios"], ["nonsense"]].map((args) =>
      run(...args),
    );
    expect(texts[0]).toContain("npx --no -- hone <command>");
    expect(texts[1]).toContain("npx --no -- hone train --steps 15");
    expect(texts[3]).toContain("`npx --no -- hone build-db --db");
    expect(texts.filter((text) => /\byarn\b/.test(text))).toEqual([]);
  });
});
