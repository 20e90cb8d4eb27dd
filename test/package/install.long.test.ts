/** The tarball, installed with npm in an empty folder by somebody with an empty home: dependencies, addon, types, a step. */
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, rmSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureLearnerPython } from "../support/python.js";
import { aPackage, honeIn, pack, typeErrors, writePrograms } from "./support.js";

const base = mkdtempSync(join(tmpdir(), "hone-install-"));
const folder = join(base, "project");
afterAll(() => rmSync(base, { recursive: true, force: true }));

describe("npm install of the tarball", () => {
  beforeAll(() => {
    mkdirSync(folder);
    writeFileSync(join(folder, "package.json"), aPackage);
    const { tarball } = pack(base);
    const env = { ...process.env, HOME: join(base, "home") };
    const args = ["install", "--no-audit", "--no-fund", tarball];
    const { status, stderr } = spawnSync("npm", args, { cwd: folder, encoding: "utf8", env });
    expect(status, stderr).toBe(0);
    writePrograms(folder);
    unlinkSync(join(folder, "wrong.ts"));
  }, 1_800_000);

  it("puts the command where npx finds it", () => {
    const { status, stdout } = spawnSync("npx", ["--no", "hone", "--help"], { cwd: folder, encoding: "utf8" });
    expect(status).toBe(0);
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
    expect(JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "")).toMatchObject({ steps: 1 });
  });
});
