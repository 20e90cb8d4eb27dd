/** A command loads what it uses, and nothing of what was not chosen. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
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
