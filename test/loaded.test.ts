/** A command loads what it uses, and nothing of what was not chosen. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, expect, it } from "vitest";
import { packageRoot } from "../src/core/util/paths.js";
import { loadedBy, UNCHOSEN } from "./support/loaded.js";

const home = mkdtempSync(join(tmpdir(), "hone-loaded-"));
afterAll(() => rmSync(home, { recursive: true }));

it("`hone --help` loads no command, and no package", () => {
  const { files, stdout } = loadedBy("--help");
  expect(stdout).toContain("yarn hone check");
  expect(files).toEqual([
    "cli.js",
    ...["errors", "paths", "program", "text", "time-limit", "watch"].map((name) => `core/util/${name}.js`),
    "hone/command-list.js",
    "hone/commands/commands.js",
  ]);
});

it("`rollout --expert` loads neither an engine of servers, nor what trains, judges or serves", () => {
  const db = ["--db", join(home, "mail.db")];
  loadedBy("build-db", ...db, "--mailboxes", "3");
  const { files, stdout } = loadedBy("rollout", "--expert", "--n", "1", "--group-size", "1", ...db, "--home", home);
  expect(stdout).toMatch(/^1 rollouts in 1 groups/m);
  expect(files).toContain("hone/expert-session.js");
  expect(files.length).toBeLessThanOrEqual(160);
  expect(
    files.filter((file) => /^(serve\/(?!openai\/)|guards\/|core\/train\/|core\/learn\/(?!objectives))|vllm/.test(file)),
  ).toEqual([]);
  expect(files.filter((file) => UNCHOSEN.test(file))).toEqual([]);
});

it("a program that imports the library loads no client for HTTP before it asks a server", () => {
  const library = pathToFileURL(join(packageRoot, "dist/src/index.js")).href;
  const code = `import { createRequire } from "node:module";
    await import(${JSON.stringify(library)});
    console.log(JSON.stringify(Object.keys(createRequire(import.meta.url).cache)));`;
  const { stdout, stderr } = spawnSync(process.execPath, ["--input-type=module", "-e", code], { encoding: "utf8" });
  const files: string[] = JSON.parse(stdout || stderr);
  expect(files.some((file) => file.includes("/node_modules/better-sqlite3/"))).toBe(true);
  expect(files.filter((file) => file.includes("/node_modules/undici/"))).toEqual([]);
});
