/** hone's own loop as a program calls it, and that `yarn train` calls nothing else. */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import type { MetricsLine } from "../../src/core/run/records.js";
import { packageRoot } from "../../src/core/util/paths.js";
import type { TrainEvents } from "../../src/trainer/events.js";
import { trainRun } from "../../src/trainer/run.js";
import type { RewardFunction } from "../../src/trainer/train-options.js";
import { everything } from "../support/everything.js";
import { ensureLearnerPython } from "../support/python.js";

/** The names that a file imports, by the path it gives. */
function importsOf(text: string): Map<string, string[]> {
  const found = [...text.matchAll(/^import (?:type )?\{([^}]*)\} from "([^"]+)";$/gm)];
  expect(found).toHaveLength(text.match(/\bimport\b/g)?.length ?? 0);
  return new Map(found.map(([, names = "", path = ""]) => [path, namesIn(names)]));
}

const namesIn = (list: string) => [...list.matchAll(/(?:type )?(\w+)(?:,|\s*$)/g)].map(([, name]) => name as string);

describe("yarn train", () => {
  const imports = importsOf(readFileSync(join(packageRoot, "src/hone/commands/train.ts"), "utf8"));

  it("has of the work what a program can import, and nothing else", () => {
    const index = readFileSync(join(packageRoot, "src/index.ts"), "utf8");
    const published = [...index.matchAll(/^export (?:type )?\{([^}]*)\}/gm)].flatMap(([, names = ""]) =>
      namesIn(names),
    );
    const work = [...imports].flatMap(([path, names]) => (path.startsWith("../../trainer/") ? names : []));
    expect(work).toContain("trainRun");
    expect(published).toEqual(expect.arrayContaining(work));
  });

  it("has besides only options, output, and texts of its help", () => {
    const others = [...imports].filter(([path]) => !path.startsWith("../../trainer/"));
    expect(others.map(([path]) => path.replace(/[^/]+$/, ""))).toEqual(
      expect.arrayContaining(["../", "../../core/config/", "../../insight/report/", "../../judge/reward/"]),
    );
    for (const [path] of others)
      expect(path).toMatch(/^\.\.\/(command|\.\.\/(core\/(config|run)|insight\/report|judge\/reward)\/[^/]+)\.js$/);
    expect(imports.get("../../judge/reward/registry.js")).toEqual(["rewardsText"]);
  });
});

describe("trainRun with the program's own reward", () => {
  const home = mkdtempSync(join(tmpdir(), "hone-train-run-"));
  const task = join(packageRoot, "test/train/support/vowels-task.ts");
  afterAll(() => rmSync(home, { recursive: true, force: true }));

  let python: string;
  beforeAll(async () => {
    await ensureTestModels(["tiny"], () => undefined);
    python = await ensureLearnerPython();
  });

  const options = (steps: number) => ({
    home,
    task,
    python,
    steps,
    run: "own",
    model: modelPath("qwen2-tiny-f16.gguf"),
    gpu: "off" as const,
    threads: 1,
    context: 256,
    maxTokens: 8,
    maxTurns: 1,
    groupsPerStep: 2,
    groupSize: 3,
    validateN: 1,
    validateEvery: 0,
    learningRate: 1e-2,
    warmup: 0,
    loraRank: 4,
  });
  /** The first rollout of a group is the best, whatever it is. */
  const first: RewardFunction = (group) => group.map((_, i) => (i === 0 ? 4 : 1));
  const folder = join(home, "vowels/models/own");

  it("trains by it, tells each event, and goes on after the last step, until a reward is missing", async () => {
    const told: string[] = [];
    const lines: MetricsLine[] = [];
    const events: TrainEvents = {
      onStart: ({ folder: at, step, steps, judged }) => told.push(`start ${at === folder} ${step}/${steps} ${judged}`),
      onPhase: (step, phase, total) => told.push(`${step} ${phase} ${total}`),
      onRewarded: (group, reward) =>
        told.push(`${group.length} ${reward.kind === "rewarded" ? reward.rewards : reward.kind}`),
      onStep: (line) => {
        told.push(`step ${line.step}`);
        lines.push(line);
      },
      onValidation: ({ step }) => told.push(`validated ${step}`),
    };
    const done = await trainRun(options(1), { ...events, reward: first });
    expect(told).toEqual([
      "start true 0/1 true",
      "1 rollouts 6",
      "3 4,1,1",
      "3 4,1,1",
      "1 update 2",
      "step 1",
      "0 validation 1",
      "validated 0",
      "1 validation 1",
      "validated 1",
    ]);
    expect(lines[0]).toMatchObject({ training_reward: 2, training_n: 6, skipped: null, checkpoint: 1 });
    expect(done).toMatchObject({ run: "own", folder, steps: 1 });

    const said: string[] = [];
    const lacking: RewardFunction = () => [1, 0];
    await expect(trainRun(options(2), { reward: lacking, log: (line) => said.push(line) })).rejects.toThrow(
      /^the group of v\d+ has 3 rollouts and 2 rewards; give one for each$/,
    );
    expect(said).toContain(`${folder}: going on after step 1 of 2`);
  });

  if (everything) {
    it("says that more steps raise the learning rate again, before anything is loaded", async () => {
      const falling = { ...options(2), run: "longer", finalLearningRate: 1e-3 };
      await trainRun(falling, { reward: first, log: (line) => expect(line).not.toContain("learning rate") });
      const stop = new AbortController();
      const said: string[] = [];
      const log = (line: string) => {
        said.push(line);
        if (line.includes("learning rate")) stop.abort();
      };
      const longer = trainRun({ ...falling, steps: 4 }, { reward: first, log, signal: stop.signal });
      await expect(longer).rejects.toThrow("interrupted in step 3");
      const text = said.find((line) => line.includes("learning rate"));
      expect(text).toContain("from 0.001 in step 2 to 0.004 in step 3, and down to 0.001 in step 4");
      const [, fork = ""] = /--fork (\S+)/.exec(text ?? "") ?? [];
      // As it is said: a run of its own that keeps the rate.
      const kept: MetricsLine[] = [];
      const on = { ...options(1), run: "longer-on", fork, learningRate: 1e-3, finalLearningRate: 1e-3, warmup: 0 };
      await trainRun(on, { reward: first, onStep: (line) => kept.push(line) });
      expect(kept.map(({ learning_rate: rate }) => rate)).toEqual([1e-3]);
    });
  }

  it("does not go on by another reward, as yarn train would", async () => {
    await expect(trainRun(options(3))).rejects.toThrow("the reward is a function of a program");
    await expect(trainRun({ ...options(3), reward: "task" })).rejects.toThrow("--reward task (was program)");
  });

  it("refuses what says the same twice, or nothing", async () => {
    const fresh = { ...options(1), run: "refused" };
    await expect(trainRun({ ...fresh, reward: "shaped" }, { reward: first })).rejects.toThrow(
      "--reward shaped and a reward function are both given; give one of them",
    );
    await expect(trainRun(fresh, { spreadFloor: 0.1 })).rejects.toThrow("spreadFloor is of a reward function");
    await expect(trainRun({ ...fresh, stepz: 3 } as object)).rejects.toThrow("did you mean steps?");
  });
});
