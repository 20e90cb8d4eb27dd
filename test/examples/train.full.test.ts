/** examples/train.ts as a user runs it: a training loop that a program owns, on hone's tiny model. */
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { ensureLearnerPython } from "../support/python.js";

const folder = mkdtempSync(join(tmpdir(), "hone-own-loop-"));
const example = join(packageRoot, "examples/train.ts");

function hone(...args: string[]) {
  const cli = join(packageRoot, "dist/src/cli.js");
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, ...args], { cwd: folder, encoding: "utf8" });
  return { status, stdout, stderr };
}

describe("a loop of one's own", () => {
  let said = "";

  beforeAll(async () => {
    await ensureLearnerPython();
    hone("build-db", "--mailboxes", "10");
    const { status, stdout, stderr } = hone("exec", example, "1", "8", "4");
    expect(status, stderr).toBe(0);
    said = stdout;
  });

  it("is at most 60 lines", () => {
    expect(readFileSync(example, "utf8").trimEnd().split("\n").length).toBeLessThanOrEqual(60);
  });

  it("evaluates, plays, rewards with a function of its own, updates, and evaluates again", () => {
    expect(said).toMatch(/^before: \d+ % \(\d+ to \d+, n=4\)$/m);
    expect(said).toMatch(/^step 1: reward \d\.\d\d, success \d\.\d\d $/m);
    expect(said).toMatch(/^after: \d+ % \(\d+ to \d+, n=4\)$/m);
    const [, adapter = ""] = /^adapter: (.*)$/m.exec(said) ?? [];
    expect(existsSync(adapter), said).toBe(true);
  });

  it("leaves a run that other commands read, with its own rewards beside the task's", () => {
    const { status, stdout, stderr } = hone("metrics", "own-loop", "--json");
    expect(status, stderr).toBe(0);
    const { steps } = JSON.parse(stdout) as { steps: Record<string, number>[] };
    expect(steps).toHaveLength(1);
    const [step] = steps;
    expect(step).toMatchObject({ step: 1, checkpoint: 1, rollouts: 64, training_n: 64 });
    expect(step?.training_reward).not.toBeCloseTo(step?.reward as number, 6);
  });

  it("goes on after its last whole step, and does nothing when there is none left", () => {
    const { status, stdout, stderr } = hone("exec", example, "1", "3", "2");
    expect(status, stderr).toBe(0);
    expect(stdout).not.toMatch(/^step/m);
    expect(stdout).toMatch(/^after: /m);
  });
});
