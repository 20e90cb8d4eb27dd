/** `hone replay` of a real run: every part of a step recomputed, and what differs where something was changed afterwards. */
import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import Database from "better-sqlite3";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { packageRoot } from "../../src/core/util/paths.js";
import type { Replayed, ReplayedStep } from "../../src/trainer/replay/types.js";
import { runHone } from "../models/support/cli.js";
import { everything } from "../support/everything.js";
import { ensureLearnerPython } from "../support/python.js";

const home = mkdtempSync(join(tmpdir(), "hone-replay-"));
const models = join(home, ".hone/vowels/models");
const run = join(models, "first");
afterAll(() => rmSync(home, { recursive: true, force: true }));

const gguf = modelPath("qwen2-tiny-f16.gguf");
let env: Record<string, string>;

/** @param folder the run's */
async function replayed(folder: string, ...args: string[]) {
  const { status, stdout, stderr } = await runHone(
    home,
    ["replay", folder, "--gpu", "off", "--threads", "1", "--json", ...args],
    env,
  );
  const last = stdout.trimEnd().split("\n").at(-1) ?? "";
  const done = (last.startsWith("{") ? JSON.parse(last) : {}) as Partial<Replayed>;
  const { steps = [] } = done;
  const of = ({ checks }: ReplayedStep) => Object.fromEntries(checks.map(({ part, result }) => [part, result]));
  const texts = steps.flatMap(({ checks }) => checks.map(({ text }) => text)).join("\n");
  return {
    ...{ status, stdout, stderr, texts, bySteps: new Map(steps.map((one) => [one.step, of(one)])) },
    results: steps.map(of).at(-1) ?? {},
  };
}

/** A copy of the run, in which something was changed. */
function changed(name: string, change: (folder: string, database: Database.Database) => void): string {
  const folder = join(models, name);
  cpSync(run, folder, { recursive: true });
  const database = new Database(join(folder, "run.sqlite"));
  change(folder, database);
  database.close();
  return folder;
}

beforeAll(async () => {
  env = { HONE_PYTHON: await ensureLearnerPython() };
  await ensureTestModels(["tiny"], () => undefined);
  const task = ["--task", join(packageRoot, "test/train/support/vowels-task.ts"), "--model", gguf, "--run", "first"];
  const size =
    "--steps 3 --keep 3 --groups-per-step 2 --group-size 4 --max-tokens 8 --max-turns 1 --validate-n 1 --gpu off --threads 1".split(
      " ",
    );
  const trained = await runHone(home, ["train", ...task, ...size], env);
  expect(trained.status, trained.stderr).toBe(0);
});

describe("hone replay", () => {
  it("recomputes the first and the last step of a run, bit for bit, and says what it takes as stored", async () => {
    const both = await replayed(run);
    expect(both.status, both.stderr).toBe(0);
    expect([...both.bySteps.keys()]).toEqual([1, 3]);
    expect(new Set(Object.values(both.results))).toEqual(new Set(["same"]));
    expect(both.bySteps.get(1)).toMatchObject({ advantages: "same", batch: "skipped", update: "same" });
    expect(both.stdout + both.stderr).toContain("not rebuilt: the play: tokens,");
  });

  if (everything) {
    it("recomputes all steps where they are asked for, and names each that differs", async () => {
      const folder = changed("two-differ", (_, database) => {
        database.prepare("UPDATE rollouts SET advantage = -advantage WHERE phase = 'train' AND step > 1").run();
      });
      const { status, stderr, bySteps } = await replayed(folder, "--step", "all");
      expect(status).toBe(1);
      expect([...bySteps].map(([step, { advantages }]) => [step, advantages])).toEqual([
        [1, "same"],
        [2, "differs"],
        [3, "differs"],
      ]);
      for (const step of [2, 3])
        expect(stderr).toContain(`step ${step} of two-differ cannot be reproduced: other advantages`);
    });
  }

  it("names the rollout whose reward or advantage is another than was trained with", async () => {
    const folder = changed("other-numbers", (_, database) => {
      database.prepare("UPDATE rollouts SET advantage = -advantage WHERE phase = 'train' AND step = 3").run();
    });
    const { status, stderr, results, texts } = await replayed(folder, "--step", "3");
    expect(status).toBe(1);
    expect(stderr).toContain("step 3 of other-numbers cannot be reproduced: other advantages");
    expect(results).toMatchObject({ "task rewards": "same", "training rewards": "same", advantages: "differs" });
    // The update was made with what follows from the rewards.
    expect(results).toMatchObject({ batch: "same", update: "same" });
    expect(texts).toMatch(
      /advantages from the stored rewards of \d+ of 8 rollouts: of \S+\/\d it is -?[\d.]+ now and was/,
    );
  });

  it("says that rewards and with them the update would be others", async () => {
    const folder = changed("other-rewards", (_, database) => {
      database
        .prepare("UPDATE rollouts SET training_reward = 1 - training_reward WHERE phase = 'train' AND step = 3")
        .run();
    });
    const { status, results } = await replayed(folder, "--step", "3");
    expect(status).toBe(1);
    expect(results).toMatchObject({ "task rewards": "same", "training rewards": "differs", batch: "differs" });
  });

  it("sees an optimizer of another step", async () => {
    const folder = changed("other-optimizer", (folder) => {
      const file = (step: string) => join(folder, "checkpoints", step, "optimizer.pt");
      cpSync(file("0001"), file("0002"));
    });
    const { status, results } = await replayed(folder, "--step", "3");
    expect(status).toBe(1);
    expect(results).toMatchObject({ batch: "same", update: "differs" });
  });

  it("leaves out an update whose checkpoint was deleted, and says which option keeps more", async () => {
    const folder = changed("pruned", (folder) => rmSync(join(folder, "checkpoints/0001"), { recursive: true }));
    const { status, results, texts } = await replayed(folder, "--step", "2");
    expect(status).toBe(0);
    expect(results).toMatchObject({ advantages: "same", update: "skipped" });
    expect(texts).toContain("train with a larger --keep");
  });

  it("is what train does with a few rollouts when it goes on: it says that the task rewards otherwise, and trains", async () => {
    changed("edited", () => undefined);
    const edited = join(home, "vowels-task.ts");
    const text = readFileSync(join(packageRoot, "test/train/support/vowels-task.ts"), "utf8");
    writeFileSync(edited, text.replace("reward: share,", "reward: 1 + share,"));
    const goingOn = (task: string, steps: string) =>
      runHone(
        home,
        ["train", "--task", task, "--run", "edited", "--steps", steps, "--gpu", "off", "--threads", "1"],
        env,
      );
    const same = await goingOn(join(packageRoot, "test/train/support/vowels-task.ts"), "4");
    expect(same.status, same.stderr).toBe(0);
    expect(same.stdout).toContain("going on after step 3 of 4");
    expect(same.stdout).not.toContain("if you changed");
    const other = await goingOn(edited, "5");
    expect(other.status, other.stderr).toBe(0);
    expect(other.stdout).toContain("the task's reward of 8 of 8 rollouts: of ");
    expect(other.stdout).toContain("if you changed vowels-task.ts, give --run NAME for a new run");
  });

  it.each([
    ["9", "there is no step 9 to replay"],
    ["1-2", "--step 1-2: replay takes one step, such as 7, or all"],
  ])("refuses --step %s in one line", async (step, line) => {
    const { status, stderr } = await replayed(run, "--step", step);
    expect(status).not.toBe(0);
    expect(stderr).toContain(line);
  });
});
