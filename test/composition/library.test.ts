/** The library as a program uses it, on a model of random weights and a task that such a model can learn. */
import { mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it, vi } from "vitest";
import { ensureTestModels, modelPath } from "../../bench/models.js";
import { EngineOutOfMemory } from "../../src/core/engine/errors.js";
import type { Gathered } from "../../src/core/gather/gather.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { evaluate } from "../../src/trainer/evaluate.js";
import { gather } from "../../src/trainer/gather.js";
import { type Model, type ModelOptions, openModel } from "../../src/trainer/model.js";
import { ruler } from "../../src/trainer/ruler.js";
import { openRun } from "../../src/trainer/run.js";
import { type OpenTask, openTask } from "../../src/trainer/task.js";
import { train } from "../../src/trainer/train.js";
import type { RunOptions } from "../../src/trainer/train-options.js";
import { openedOf, type TrainingRun } from "../../src/trainer/training-run.js";
import { completion, honest, scoresText, startServer } from "../judge/support/server.js";
import { ensureLearnerPython } from "../support/python.js";

const home = mkdtempSync(join(tmpdir(), "hone-library-"));
const vowels = join(packageRoot, "test/train/support/vowels-task.ts");
const asked: RunOptions = {
  run: "own",
  learningRate: 1e-2,
  warmup: 0,
  loraRank: 4,
  groupsPerStep: 2,
  groupSize: 3,
  validateN: 2,
  reward: (group) => group.map((_, index) => index),
};
const playing = { gpu: "off", threads: 1, context: 256, maxTokens: 8, maxTurns: 1, temperature: 1 } as const;

let python: string;
let task: OpenTask;
let model: Model;
let run: TrainingRun;
let played: Gathered;

beforeAll(async () => {
  await ensureTestModels(["tiny"], () => undefined);
  python = await ensureLearnerPython();
  task = await openTask(vowels, { home, seed: 3 });
  model = await openModel(modelPath("qwen2-tiny-f16.gguf"), playing);
  run = await openRun(model, task, { ...asked, python });
  played = await gather(model, task, task.train.slice(0, 2), { groupSize: 4, step: 1 });
});

afterAll(async () => {
  await run?.close();
  await model?.close();
});

describe("a program's own step", () => {
  it("is refused where the rewards do not belong to the rollouts", async () => {
    const { groups } = played;
    await expect(train(run, groups, { rewards: [[1, 0, 1, 0]] })).rejects.toThrow("2 groups and 1 rewards");
    await expect(
      train(run, groups, {
        rewards: [
          [1, 0, 1],
          [1, 0, 1, 0],
        ],
      }),
    ).rejects.toThrow("group 0 has 4 rollouts and 3 rewards; give one for each");
    await expect(
      train(run, groups, {
        rewards: [
          [1, 0, 1, Number.NaN],
          [1, 0, 1, 0],
        ],
      }),
    ).rejects.toThrow(/the reward of rollout v\d+\/3 is NaN, not a number/);
    await expect(train(run, [groups[0] ?? [], groups[0] ?? []])).rejects.toThrow(/two groups are of the scenario v/);
    await expect(train(run, [[], []])).rejects.toThrow("no group has a rollout");
    expect(run.step).toBe(0);
  });

  it("is refused where its rollouts are not what was played", async () => {
    const others = played.groups.map((group) =>
      group.map((one) => ({ ...one, messages: one.messages.with(0, { role: "user" as const, content: "another" }) })),
    );
    const rewards = others.map(() => [1, 0, 0, 0.5]);
    await expect(train(run, others, { rewards })).rejects.toThrow(/was given other tokens than its messages/);
    expect(run.step).toBe(0);
  });

  it("teaches by the program's rewards, and the model plays with what was learnt", async () => {
    expect([run.step, run.adapter, model.adapter]).toEqual([0, null, null]);
    const before = await evaluate(model, task, task.test);
    const line = await train(run, played.groups, { rewards: played.groups.map(() => [1, 0, 0, 0.5]) });
    expect(line).toMatchObject({ step: 1, checkpoint: 1, skipped: null, groups: 2, rollouts: 8, training_n: 8 });
    expect(line.training_reward).toBeCloseTo(0.375, 10);
    expect(run.step).toBe(1);
    expect(model.adapter?.path).toBe(run.adapter);
    expect(run.metrics()).toEqual([expect.objectContaining({ step: 1, loss: line.loss })]);
    const after = await evaluate(model, task, task.test);
    expect([before.n, after.n]).toEqual([8, 8]);
    // The very same draws: what differs is the adapter's doing.
    expect(after.reward).not.toBe(before.reward);
  });

  it("refuses rollouts of before it: they are not the policy's any more", async () => {
    await expect(train(run, played.groups)).rejects.toThrow("was not played with the adapter of step 1; gather anew");
  });

  it("says why nothing was learnt, and counts all the same", async () => {
    const { groups } = await gather(model, task, task.train.slice(2, 4), { groupSize: 2, step: 2 });
    const line = await train(run, groups, { rewards: groups.map(() => [0.5, 0.5]) });
    expect(line).toMatchObject({ step: 2, checkpoint: 1, skipped: "no_spread" });
    expect((await train(run, groups, { rewards: groups.map(() => [0.5, 0.52]), spreadFloor: 0.05 })).skipped).toBe(
      "no_spread",
    );
  });

  it("that fails, or is taken back, leaves the model with the adapter in force", async () => {
    const { policy, updater } = openedOf(run).parts;
    const { groups } = await gather(model, task, task.train.slice(2, 3), { groupSize: 2, step: 4 });
    const [at, teach] = [run.step, () => train(run, groups, { rewards: [[1, 0]] })];
    const failing = vi.spyOn(updater, "update").mockRejectedValueOnce(new Error("no answer"));
    await expect(teach()).rejects.toThrow("no answer");
    // The adapter in force is looked at first.
    const probe = vi.spyOn(policy, "probe").mockResolvedValueOnce(null);
    const seen = probe.mockResolvedValueOnce({ after: 9, before: 0, n: 1, moved: 1 });
    await expect(teach()).rejects.toThrow("the step was taken back");
    for (const spy of [failing, seen]) spy.mockRestore();
    expect(run.step).toBe(at);
    expect(model.adapter?.path ?? null).toBe(run.adapter);
    const again = await gather(model, task, task.train.slice(2, 3), { groupSize: 2, step: 4 });
    expect(again.failures).toEqual([]);
    expect(again.groups.flat().map(({ player }) => player)).toEqual(groups.flat().map(({ player }) => player));
  });

  it("validates a step once", async () => {
    const first = await run.validate(task.test);
    expect(first.n).toBe(8);
    expect(await run.validate(task.test)).toEqual(first);
  });

  it("says in one line which grade of the program is no reward", async () => {
    const grade = (() => 1) as never;
    await expect(evaluate(model, task, task.test.slice(0, 1), { grade })).rejects.toMatchObject({
      name: "HoneError",
      message: expect.stringMatching(/^the grade of the rollout \S+ is 1, not an object: return \{ reward/),
    });
  });

  it("grades by the program's own function", async () => {
    const grade = () => ({ reward: 2, success: true, parts: { kind: 1 } });
    const { reward, success, parts } = await evaluate(model, task, task.test.slice(0, 2), { grade });
    expect([reward, success, parts]).toEqual([2, 1, { kind: { mean: 1, n: 2 } }]);
  });
});

describe("a ruler", () => {
  it("gives scores that train takes, and counts what the judge was asked", async () => {
    const server = await startServer((request) => completion(scoresText(honest(request))));
    const judge = await ruler(task, { judgeUrl: server.url, judgeModel: "judge" });
    try {
      const { groups } = await gather(model, task, task.train.slice(4, 5), { groupSize: 3, step: 4 });
      const rewards = await Promise.all(groups.map((group) => judge.score(group)));
      expect(rewards).toEqual([
        {
          kind: "rewarded",
          rewards: expect.any(Array),
          explanations: expect.any(Array),
          agreement: null,
          of: groups[0]?.map(({ id }) => id),
        },
      ]);
      expect(judge.usage().requests).toBe(1);
      expect((await train(run, groups, { rewards, spreadFloor: 0.05 })).training_n).toBe(3);
    } finally {
      judge.close();
      await server.close();
    }
  });
});

describe("a program's step without rewards of its own", () => {
  it("is rewarded as the run's options say", async () => {
    const { groups } = await gather(model, task, task.train.slice(0, 1), { groupSize: 2, step: 5 });
    expect(await train(run, groups)).toMatchObject({ step: 5, training_reward: 0.5, skipped: null });
  });
});

describe("a run that makes its own steps", () => {
  it("plays, rewards by the program's function, learns and validates up to its last step", async () => {
    const steps = run.step + 2;
    await run.close();
    const [step, validated, refused]: [number[], number[], unknown[]] = [[], [], []];
    run = await openRun(model, task, {
      ...asked,
      python,
      steps,
      validateEvery: 1,
      onValidation: (row) => validated.push(row.step),
    });
    for await (const line of run) {
      step.push(line.step);
      expect(line).toMatchObject({ groups: 2, training_reward: 1, skipped: null });
      refused.push(await train(run, played.groups).catch((error: Error) => error.message));
    }
    expect(step).toEqual([6, 7]);
    expect(validated).toEqual([5, 6, 7]);
    expect(refused[0]).toBe("train(): the run is making its steps (for await); use one or the other");
    expect(model.adapter?.path).toBe(run.adapter);
    expect(run.summary()).toMatchObject({ steps: 7, after: { n: 2 } });
  });
});

describe("a step that is committed when memory lacks for the model", () => {
  it("is settled before anything else", async () => {
    const { policy, run: kept } = openedOf(run).parts;
    const { groups } = await gather(model, task, task.train.slice(2, 3), { groupSize: 2, step: 8 });
    const wake = vi.spyOn(policy, "wake").mockRejectedValue(new EngineOutOfMemory("no memory")).mockResolvedValueOnce();
    const at = run.step;
    await expect(train(run, groups, { rewards: [[1, 0]] })).rejects.toThrow(`Step ${at + 1} is kept`);
    expect(kept.store.unsettledStep()?.step).toBe(at + 1);
    await expect(gather(model, task, task.train.slice(2, 3))).rejects.toThrow("sleeps");
    wake.mockRestore();
    await run.validate(task.test);
    expect(kept.store.unsettledStep()).toBeUndefined();
    expect(run.metrics().at(-1)).toMatchObject({ step: at + 1, probe: expect.anything() });
    expect(model.adapter?.path).toBe(run.adapter);
  });
});

describe("what a program says wrongly is one line", () => {
  it.each([
    [
      "an option that there is not",
      { temprature: 1 },
      "options: temprature is not an option; did you mean temperature",
    ],
    ["a value that is not accepted", { temperature: -1 }, "--temperature: -1 is not accepted"],
  ])("%s", async (_, options, message) => {
    await expect(openModel("tiny", options as ModelOptions)).rejects.toThrow(message);
  });

  it("a run that was begun with other settings", async () => {
    await run.close();
    await expect(openRun(model, task, { ...asked, python, learningRate: 1e-3 })).rejects.toThrow(
      "--learning-rate 0.001 (was 0.01)",
    );
    run = await openRun(model, task, { ...asked, python });
    expect(run.step).toBe(8);
  });

  it("steps or validations of a program's own in a run that plays ahead", async () => {
    const ahead = await openRun(model, task, { ...asked, python, run: "ahead", staleness: 1 });
    try {
      await expect(train(ahead, played.groups)).rejects.toThrow(
        "train(): with staleness the run makes its steps itself",
      );
      await expect(ahead.validate(task.test)).rejects.toThrow("validate(): with staleness");
    } finally {
      await ahead.close();
    }
  });

  it("options of the model or the task, which have them already", async () => {
    const options = { ...asked, python, seed: 4 } as RunOptions;
    await expect(openRun(model, task, options)).rejects.toThrow("options: seed is not an option");
  });

  it("sampling that the learner does not know", async () => {
    const truncated = Object.assign(Object.create(model), { config: { ...model.config, topK: 5 } }) as Model;
    await expect(openRun(truncated, task, { run: "other", python })).rejects.toThrow(
      /--top-k 5: training samples from/,
    );
  });
});
