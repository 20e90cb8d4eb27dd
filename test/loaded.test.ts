/** A command loads what it uses, and nothing of what was not chosen. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { loadedBy, roomsOf } from "./support/loaded.js";

const home = mkdtempSync(join(tmpdir(), "hone-loaded-"));
afterAll(() => rmSync(home, { recursive: true }));

it("`hone --help` loads no command, and no package", () => {
  const { files, stdout } = loadedBy("--help");
  expect(stdout).toContain("yarn hone check");
  expect(files).toEqual([
    "cli.js",
    "command-list.js",
    "commands/commands.js",
    ...["errors", "paths", "program", "text", "time-limit", "watch"].map((name) => `util/${name}.js`),
  ]);
});

it("`rollout --expert` loads neither an engine of servers, nor what trains, judges or serves", () => {
  const db = ["--db", join(home, "mail.db")];
  loadedBy("build-db", ...db, "--mailboxes", "3");
  const { files, stdout } = loadedBy(
    ...["rollout", "--expert", "--n", "1", "--group-size", "1", ...db, "--home", home],
  );
  expect(stdout).toMatch(/^1 rollouts in 1 groups/m);
  expect(files).toContain("rollout/expert-session.js");
  expect(files.length).toBeLessThanOrEqual(200);
  for (const other of ["serve", "judge", "mcp", "agent", "scenarios", "train", "learn"])
    expect(roomsOf(files)).not.toContain(other);
  expect(files.filter((file) => file.includes("vllm"))).toEqual([]);
});
