import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/util/paths.js";

const cli = join(packageRoot, "dist/src/cli.js");
const task = join(packageRoot, "examples/arithmetic.ts");

function play(input: string, ...flags: string[]) {
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, "play", "--task", task, ...flags], {
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

  it("refuses a scenario that is not there", () => {
    const { status, stderr } = play("", "--scenario", "sum-1-9999");
    expect(status).toBe(2);
    expect(stderr).toContain("there is no scenario sum-1-9999");
  });
});
