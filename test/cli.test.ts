import { spawnSync } from "node:child_process";
import { mkdtempSync, readdirSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { commands } from "../src/commands/index.js";
import { packageRoot } from "../src/util/paths.js";

const folder = mkdtempSync(join(tmpdir(), "hone-cli-"));

/** Runs the built command line as a user does. */
function hone(...args: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [join(packageRoot, "dist/src/cli.js"), ...args], {
    cwd: folder,
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

describe("the command line", () => {
  it("lists every command with an example", () => {
    const { status, stdout } = hone("--help");
    expect(status).toBe(0);
    const text = stdout.replaceAll(/\s+/g, " ");
    for (const { name, example } of commands) {
      expect(text).toContain(name);
      expect(text).toContain(example.replaceAll(/\s+/g, " "));
    }
  });

  it.each(commands.map((command) => [command.name, command]))(
    "%s --help shows its options and its example",
    (name, command) => {
      const { status, stdout } = hone(name, "--help");
      expect(status).toBe(0);
      expect(stdout.replaceAll(/\s+/g, " ")).toContain(command.example.replaceAll(/\s+/g, " "));
      expect(stdout).toContain("--json");
    },
  );

  it.each([
    [["rolout"], /there is no command rolout; did you mean rollout\?/],
    [["rollout", "--grupp", "3"], /--grupp: rollout has no such option; did you mean --group\?/],
    [["rollout", "--group"], /[Nn]ot enough arguments.*group/],
    [["rollout", "--group", "none"], /--group: "none" is not accepted; give a whole number from 1/],
    [["rollout", "extra"], /rollout does not know what to do with "extra"/],
  ])("refuses %j with one line and exit code 2", (args, message) => {
    const { status, stdout, stderr } = hone(...args);
    expect(status).toBe(2);
    expect(stdout).toBe("");
    expect(stderr).toMatch(message);
    expect(stderr.trimEnd().split("\n")).toHaveLength(1);
  });

  it("tells a failure as JSON too under --json", () => {
    const { status, stdout, stderr } = hone("rollout", "--expert", "--task", "nowhere.ts", "--json");
    expect(status).toBe(2);
    expect(JSON.parse(stdout.trimEnd().split("\n").at(-1) ?? "")).toEqual({
      error: expect.stringMatching(/there is no file .*nowhere\.ts/),
    });
    expect(stderr).toMatch(/^hone: --task: there is no file/);
  });

  it("plays a task file's scenarios with its expert, and prints one JSON object last", () => {
    const task = join(packageRoot, "examples/arithmetic.ts");
    const { status, stdout, stderr } = hone(
      "rollout",
      "--task",
      task,
      "--expert",
      "--n",
      "3",
      "--group",
      "2",
      "--json",
    );
    expect(stderr).toMatch(/6 rollouts in 3 groups/);
    expect(status).toBe(0);
    const lines = stdout.trimEnd().split("\n");
    expect(lines).toHaveLength(1);
    const result = JSON.parse(lines[0] ?? "") as Record<string, unknown>;
    expect(result).toMatchObject({
      rollouts: 6,
      groups: 3,
      answered: 6,
      success: 1,
      ends: { answered: 6 },
      tool_errors: {},
      interrupted: false,
    });
    expect(readdirSync(join(folder, ".hone/rollouts"))).toHaveLength(1);
  });
});
