import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";

const cli = join(packageRoot, "dist/src/cli.js");
const task = join(packageRoot, "examples/arithmetic.ts");

function play(input: string, ...flags: string[]) {
  const named = flags.includes("--task") ? [] : ["--task", task];
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, "play", ...named, ...flags], {
    input,
    encoding: "utf8",
  });
  return { status, stdout, stderr };
}

describe("yarn hone play", () => {
  it("plays a scenario from piped lines and shows the reward", () => {
    // What is ((20 + 10) − 9) − 4?
    const lines = "calc add | 20 | 10\ncalc subtract | 30 | 9\ncalc subtract | 21 | 4\nanswer 17\n";
    const { status, stdout, stderr } = play(lines, "--scenario", "sum-1-20", "--json");
    expect(status).toBe(0);
    expect(JSON.parse(stdout)).toEqual({
      scenario: "sum-1-20",
      question: "What is ((20 + 10) − 9) − 4?",
      end: "answered",
      turns: 4,
      answer: { value: 17 },
      reward: 1,
      success: true,
      parts: { right: 1, steps: 1 },
    });
    expect(stderr).toContain("Solved: answered in turn 4, reward 1");
  });

  it("goes on after a mistyped line and a refused call, and ends with the input", () => {
    const { status, stdout } = play("calculate {oops\ncalculate divide | 1 | 0\n", "--scenario", "sum-1-20");
    expect(status).toBe(0);
    expect(stdout).toContain("not valid JSON");
    expect(stdout).toContain("a number cannot be divided by 0");
    expect(stdout).toContain("Not solved: stopped in turn 2, reward 0");
  });

  it("takes plain text in a task without tools, and shows what is answered", () => {
    const guessing = ["--task", join(packageRoot, "examples/guessing.ts"), "--scenario", "number-1-0"];
    const all = Array.from({ length: 100 }, (_, i) => `${i + 1}`);
    const { status, stdout } = play(`hello\n${all.join("\n")}\n`, ...guessing, "--max-turns", "200");
    expect(status).toBe(0);
    expect(stdout).toContain("Type your answer, or quit.");
    expect(stdout).toContain("Say a whole number from 1 to 100.");
    expect(stdout).toContain("Higher.");
    expect(stdout).toMatch(/Solved: answered in turn \d+/);
  });

  it("takes plain text besides calls", () => {
    const { stdout } = play("say I do not know\n", "--scenario", "sum-1-20", "--json");
    expect(JSON.parse(stdout)).toMatchObject({ end: "no_tool_call", turns: 1 });
  });

  it("refuses a scenario that is not there", () => {
    const { status, stderr } = play("", "--scenario", "sum-1-9999");
    expect(status).toBe(2);
    expect(stderr).toMatch(/there is no scenario sum-1-9999; did you mean sum-1-\d+\?/);
    expect(play("", "--scenario", "elephants").stderr).toMatch(
      /there is no scenario elephants; there are sum-\S+, sum-\S+, sum-\S+ and \d+ more/,
    );
  });
});
