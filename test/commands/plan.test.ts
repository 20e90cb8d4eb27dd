import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { modelFile } from "../../src/engine/models.js";
import { packageRoot } from "../../src/util/paths.js";

const home = mkdtempSync(join(tmpdir(), "hone-plan-"));
afterAll(() => rmSync(home, { recursive: true }));

/** Without a network: a Hub that is not there, an empty cache. */
const env = { ...process.env, HF_ENDPOINT: "http://127.0.0.1:9", HF_HUB_CACHE: join(home, "hub") };

function plan(...args: string[]) {
  const cli = join(packageRoot, "dist/src/cli.js");
  const { status, stdout, stderr } = spawnSync(process.execPath, [cli, "plan", ...args, "--home", home], {
    ...{ encoding: "utf8", env },
  });
  return { status, stdout, stderr };
}

describe("yarn hone plan", () => {
  it("plans a model by its name, with nothing downloaded", () => {
    const { status, stdout, stderr } = plan("qwen2.5-0.5b", "--cards", "4090");
    expect([status, stderr]).toEqual([0, ""]);
    expect(stdout).toMatch(/^qwen2\.5-0\.5b \(BF16, 1\.0 GB\): a step of 64 rollouts/);
    expect(stdout).toMatch(/^what to add next$/m);
  });

  it("plans a GGUF file, and says as much to programs", () => {
    const { status, stdout } = plan(modelFile("tiny"), "--cards", "2x3060", "--turns", "5", "--json");
    expect(status).toBe(0);
    const { weights, cards, best, work } = JSON.parse(stdout.trim().split("\n").at(-1) as string);
    expect({ weights, cards }).toEqual({ weights: "F16", cards: 2 });
    expect(work.rollout_tokens).toBe(600 + 5 * 100 + 4 * 300);
    expect(best.parts.reduce((sum: number, one: { seconds: number }) => sum + one.seconds, 0)).toBeCloseTo(
      best.seconds,
      9,
    );
  });

  it("fails where nothing fits, after saying what would", () => {
    const { status, stdout, stderr } = plan("qwen2.5-14b", "--cards", "3060");
    expect([status, stderr]).toEqual([1, "hone: plan: qwen2.5-14b does not fit on 3060 in any way that hone has\n"]);
    expect(stdout).toContain("nothing fits");
    expect(stdout).toMatch(/^ {2}1 × H200: /m);
  });

  it.each([
    [["org/unknown", "--cards", "4090"], "org/unknown: its shape is not known"],
    [["tiny"], "plan needs --cards"],
    [["tiny", "--cards", "4099"], "did you mean 4090?"],
    [["tiny", "--cards", "4090", "--assume", "bus=2"], "--assume bus=2 is not accepted; give a number up to 1"],
  ])("%j is refused in a line", (args, why) => {
    const { status, stderr } = plan(...args);
    expect(status).toBe(2);
    expect(stderr).toContain(why);
    expect(stderr.trim().split("\n")).toHaveLength(1);
  });
});
