/** Which options of a run are not the defaults. */
import { expect, it } from "vitest";
import { emailTask } from "../../src/email/email-task.js";
import { EMAIL_DEFAULTS, givenIn } from "../../src/insight/view/given.js";

/** As a run of the tiny model keeps its options. */
const tiny = {
  task: "email",
  model: "tiny",
  seed: 1,
  steps: 10,
  groupsPerStep: 16,
  groupSize: 8,
  context: 8192,
  learningRate: 1e-3,
  finalLearningRate: 3e-4,
  warmup: 3,
  maxGradNorm: 1,
  maxTokens: 256,
  validateN: 100,
  loss: "dapo",
  advantages: "grpo",
  clipLow: 0.2,
  clipHigh: 0.28,
  temperature: 1,
  reward: "task",
  accuracy: "task",
};

it("are those that neither the option, the model's size, the loss nor the reward gives it", () => {
  expect(givenIn({ options: tiny })).toEqual({});
  expect(givenIn({ options: { ...tiny, loss: "gspo", steps: 3, maxTurns: 4, judgeModel: undefined } })).toEqual({
    steps: " --steps 3",
    maxTurns: " --max-turns 4",
    loss: " --loss gspo",
    clipLow: " --clip-low 0.2",
    clipHigh: " --clip-high 0.28",
  });
});

it("a context as long as the model was trained with is the default, where that is less", () => {
  const engine = { part: "engine" as const, seen: "2026-01-01T00:00:00Z", trainedContext: 4096 };
  expect(givenIn({ options: { ...tiny, context: 4096 } }, [engine])).toEqual({});
  expect(givenIn({ options: { ...tiny, context: 2048 } }, [engine])).toEqual({ context: " --context 2048" });
});

it("a task's file has its options by --set", () => {
  const given = givenIn({ options: { ...tiny, task: "/t.ts", set: { level: "hard" } } });
  expect(given).toEqual({ task: " --task /t.ts", set: " --set level=hard" });
});

it("the email task has what is not its default by --set", () => {
  expect(emailTask.options.parse({})).toEqual(EMAIL_DEFAULTS);
  const set = { ...EMAIL_DEFAULTS, db: "/mail.db", inbox: "question" };
  expect(givenIn({ options: { ...tiny, set: EMAIL_DEFAULTS } })).toEqual({});
  expect(givenIn({ options: { ...tiny, set } })).toEqual({ set: " --set inbox=question db=/mail.db" });
});

it("the final rate is the rate where that was given", () => {
  const rate = { learningRate: 5e-4, finalLearningRate: 5e-4 };
  expect(givenIn({ options: { ...tiny, ...rate } })).toEqual({ learningRate: " --learning-rate 0.0005" });
});
