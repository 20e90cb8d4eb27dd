/** `yarn hone rollouts` and `yarn hone metrics` on a run that training has left. */
import { spawnSync } from "node:child_process";
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";
import { readTrajectories, type Trajectory } from "../../src/core/rollout/trajectory.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { RunReader, type SeenRollout } from "../../src/machine/runs/reader.js";
import { makeRun } from "../view/support/run.js";

const home = mkdtempSync(join(tmpdir(), "hone-rollouts-"));
const HOSTILE = "\u001b[31mred\u009b31m \u001b]0;title\u0007 <script>";
let all: SeenRollout[];

beforeAll(() => {
  const reader = RunReader.open(makeRun(home, "r", { steps: 4, lost: 3, says: HOSTILE }));
  all = [...reader.rollouts()];
  reader.close();
});

const hone = (...args: string[]) =>
  spawnSync(process.execPath, [join(packageRoot, "dist/src/cli.js"), ...args, "--home", home], {
    cwd: home,
    encoding: "utf8",
  });

describe("yarn hone rollouts", () => {
  it("lists those that are asked for, with their advantages", () => {
    const { status, stdout } = hone("rollouts", "r", "--step", "2", "--split", "train", "--failed");
    expect(status).toBe(0);
    const wanted = all.filter(({ phase, step, success }) => phase === "train" && step === 2 && !success);
    expect(wanted.length).toBeGreaterThan(1);
    const lines = stdout.trimEnd().split("\n").slice(1, -1);
    const read = lines.map((line) => line.trim().split(/\s+/));
    expect(read.map((cells) => [cells.at(-1), cells[1], Number(cells[3])])).toEqual(
      wanted.map(({ scenario, member, advantage }) => [
        `${scenario}/${member}`,
        "no",
        Number((advantage as number).toPrecision(3)),
      ]),
    );
    for (const line of stdout.split("\n")) expect(line.length).toBeLessThan(80);
  });

  it("takes ranges of steps, ends and scenarios, and says it when there are none", () => {
    const ids = (...args: string[]) =>
      (JSON.parse(hone("rollouts", "r", ...args, "--json").stdout) as { rollouts: { id: number }[] }).rollouts.map(
        ({ id }) => id,
      );
    const of = (keep: (one: SeenRollout) => boolean) => all.filter(keep).map(({ id }) => id);
    expect(ids("--step", "2-3")).toEqual(of(({ step }) => step === 2 || step === 3));
    expect(ids("--step", "0-4", "--end", "turn_limit")).toEqual(of(({ end }) => end === "turn_limit"));
    expect(ids("--scenario", "test-2", "--split", "test")).toEqual(of(({ scenario }) => scenario === "test-2"));
    expect(hone("rollouts", "r", "--step", "2", "--end", "nowhere").stdout).toBe("r: no such rollout\n");
    const beyond = hone("rollouts", "r", "--step", "9");
    expect([beyond.status, beyond.stderr]).toEqual([
      1,
      "hone: r keeps no rollouts of step 9; it has those of steps 0 to 4\n",
    ]);
    const wrong = hone("rollouts", "r", "--step", "9-2");
    expect([wrong.status, wrong.stderr]).toEqual([
      2,
      "hone: --step 9-2: give a number such as 7, or a range such as 3-9\n",
    ]);
  });

  it("lists the newest step where none is named, and says so", () => {
    const { stdout } = hone("rollouts", "r");
    const newest = all.filter(({ step }) => step === 4);
    expect(stdout).toMatch(new RegExp(`^r: ${newest.length} rollouts`, "m"));
    expect(stdout).toMatch(/^step 4, the newest; --step takes another, or a range such as 1-4$/m);
    const earlier = new Set(all.filter(({ step }) => step < 4).map((one) => one.scenario));
    const scenario = newest.find((one) => earlier.has(one.scenario))?.scenario as string;
    const followed = JSON.parse(hone("rollouts", "r", "--scenario", scenario, "--json").stdout) as {
      rollouts: object[];
    };
    expect(followed.rollouts).toHaveLength(all.filter((one) => one.scenario === scenario).length);
    expect(followed.rollouts.length).toBeGreaterThan(newest.filter((one) => one.scenario === scenario).length);
  });

  it("prints conversations without the codes that a terminal obeys, and what the judge said", () => {
    const { stdout } = hone("rollouts", "r", "--step", "1", "--split", "train", "--show");
    expect(stdout).toContain("[31mred31m ]0;title <script>");
    expect(stdout.match(/[^\P{Cc}\n]/u)).toBeNull();
    const told = all.find(({ phase, step }) => phase === "train" && step === 1);
    expect(stdout).toContain(`judge: ${told?.explanation}`);
  });

  it("writes a trajectory file that others read: all of it, tokens too", async () => {
    const { status } = hone("rollouts", "r", "--step", "3", "--jsonl", "three.jsonl");
    expect(status).toBe(0);
    const read: Trajectory[] = [];
    for await (const trajectory of readTrajectories(join(home, "three.jsonl"))) read.push(trajectory);
    expect(read).toEqual(all.filter(({ step }) => step === 3).map(({ trajectory }) => trajectory));
    const wrong = hone("rollouts", "r", "--jsonl", join(home, "three.jsonl", "x.jsonl"));
    expect([wrong.status, wrong.stderr]).toEqual([1, expect.stringMatching(/^hone: --jsonl .* cannot be written/)]);
  });
});

describe("yarn hone metrics", () => {
  it("prints a row for each step that 80 columns do not wrap", () => {
    const lines = hone("metrics", "r").stdout.trimEnd().split("\n");
    expect(lines[0]?.trim().split(/ {2,}/)).toEqual([
      "step",
      "success, 95 %",
      "n",
      "reward",
      "groups",
      "turns",
      "tokens",
      "mismatch",
      "seconds",
    ]);
    expect(lines.slice(1, 5).map((line) => line.trim().split(" ")[0])).toEqual(["1/4", "2/4", "3/4", "4/4"]);
    for (const line of lines.slice(0, 5)) expect(line.length).toBeLessThan(80);
  });

  it("shows each part of the reward with its n, here and as CSV", () => {
    const rollouts = all.filter(({ phase, step }) => phase === "train" && step === 4);
    const right = rollouts.filter(({ success }) => success).length / rollouts.length;
    const shown = `parts of the reward, step 4: right ${Number(right.toFixed(3))} (n=${rollouts.length})`;
    expect(hone("metrics", "r").stdout).toContain(`${shown}\n`);
    expect(hone("metrics", "r", "--csv").stdout.split("\n")[0]).toContain("parts.right.mean,parts.right.n,");
  });

  it("says of a judged run the task's own reward, and over how many rollouts the judge's is", () => {
    makeRun(home, "judged", { steps: 3, lost: 3, options: { reward: "ruler" } });
    const lines = hone("metrics", "judged").stdout.trimEnd().split("\n");
    const { steps } = JSON.parse(hone("metrics", "judged", "--json").stdout) as { steps: { reward: number }[] };
    const own = steps.map(({ reward }) => `independent_reward ${Number(reward.toPrecision(3))} (n=12)`);
    expect(lines.filter((line) => line.includes("independent_reward")).map((line) => line.trim())).toEqual(own);
    const third = lines.findIndex((line) => line.trim().startsWith("3/3"));
    expect(lines.slice(third + 1, third + 3).map((line) => line.trim())).toEqual([own[2], "reward over n=0"]);
    expect(hone("metrics", "r").stdout).not.toContain("independent_reward");
  });

  it("shows the coins that trained in the place of the task's own reward, as the training does", () => {
    makeRun(home, "coins", { steps: 1, options: { reward: "task", control: "random-reward" } });
    expect(hone("metrics", "coins").stdout).toContain("independent_reward");
  });

  it("writes every figure as CSV, validations beside their step", () => {
    const rows = hone("metrics", "r", "--csv").stdout.trimEnd().split("\n");
    const names = rows[0]?.split(",") ?? [];
    // numerics is JSON, and quoted.
    const cell = (row: string, name: string) =>
      row.replaceAll(/"(?:[^"]|"")*"/g, "text").split(",")[names.indexOf(name)];
    expect(rows).toHaveLength(1 + 5);
    expect(rows.slice(1).map((row) => cell(row, "step"))).toEqual(["0", "1", "2", "3", "4"]);
    expect(cell(rows[4] as string, "groups_no_verdict.timeout")).toBe("3");
    expect(cell(rows[2] as string, "groups_no_verdict.timeout")).toBe("");
    expect(cell(rows[3] as string, "seconds.total")).toBe("15");
    const held = (step: number) => cell(rows[step + 1] as string, "validation.success");
    expect([held(0), held(1), held(4)]).toEqual([
      expect.stringMatching(/^[\d.]+$/),
      "",
      expect.stringMatching(/^[\d.]+$/),
    ]);
    const reward = all.filter(({ phase, step }) => phase === "train" && step === 2).map((one) => one.reward);
    expect(Number(cell(rows[3] as string, "reward"))).toBeCloseTo(reward.reduce((sum, one) => sum + one, 0) / 12, 10);
  });
});
