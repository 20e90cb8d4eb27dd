/** An agent's own error for a mistake of the model earns 0 and is trained; one that is the program's fault is a failure. */
import { beforeAll, describe, expect, test } from "vitest";
import type { Gathered } from "../../src/core/gather/gather.js";
import { brokenOff } from "../../src/core/rollout/deadline.js";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { defineTask } from "../../src/core/task/task.js";
import { agentMistakesText } from "../../src/insight/report/agent-mistakes.js";
import { playTask, support } from "./support/playing.js";

const scenarioOf = (question: string) => ({ id: question, split: "train" as const, question });

const mistakes = {
  "exceeds its framework's turns": ["turn_limit", /^Max turns \(1\) exceeded$/],
  "wraps its framework's error": ["turn_limit", /^the agent failed$/],
  "throws the AI SDK's error": ["bad_call", /unavailable tool 'look'/],
  "asks the AI SDK for an object": ["model_mistake", /No object generated/],
  "throws what the task names": ["model_mistake", /^four$/],
  "repeats a service's answer": ["model_mistake", /Tool x not found/],
  "runs a program that gives up": ["turn_limit", /ended with code 1: MaxTurnsExceeded: Max turns \(3\) exceeded$/],
  "runs a program that logs it and exits": ["turn_limit", /ended with code 2: UsageLimitExceeded: The next request/],
  "trusts in the names of tools": [
    "bad_call",
    /^the model's mistake: its last call could not run: no tool is called \w+; there are look; known/,
  ],
  "trusts in arguments": [
    "bad_call",
    /^the model's mistake: its last call could not run: keywords.*; search_inbox takes keywords; /,
  ],
  "cannot read a turn that was cut": ["token_limit", /^the model's mistake: its last turn was cut after 5 tokens; /],
  "cannot read an answer in another form": ["model_mistake", /^the model's mistake: its last answer has not the form/],
} as const;

const faults = {
  "has a defect": /^the agent's own$/,
  "has a defect while it handles the model's": /ended with code 1: KeyError: 'defect'/,
  "imports what is not there": /ImportError: cannot import name 'MaxTurnsExceeded'/,
  "asks the AI SDK's model to read a file": /^file parts: models here read text alone$/,
  "is refused, and gives up": /^after a refusal; its last request was answered with: /,
  "runs a program that is killed": /was ended by SIGKILL/,
  "returns nothing": /rollout returned undefined/,
  "gives up before it has asked": /^Max turns \(0\) exceeded$/,
} as const;

let played: Gathered;
beforeAll(async () => {
  const short = "cannot read a turn that was cut";
  const limits = { maxTurns: 10, maxTokens: 90 };
  const all = [...Object.keys(mistakes), ...Object.keys(faults)].filter((mood) => mood !== short);
  const task = support("mistakes.ts");
  played = await playTask(task, all.map(scenarioOf), { concurrency: 8, maxExceptions: 100, limits });
  const cut = await playTask(task, [scenarioOf(short)], { limits: { maxTokens: 5 } });
  played.groups.push(...cut.groups);
});

const playedAs = (mood: string, from = played) => from.groups.flat().find(({ scenario }) => scenario.id === mood);
const failureOf = (mood: string) => played.failures.find(({ id }) => id === `${mood}/0`)?.error;

test.each(Object.entries(mistakes))("one that %s has met the model's mistake", (mood, [end, reason]) => {
  expect(failureOf(mood)).toBeUndefined();
  const trajectory = playedAs(mood) as Trajectory;
  expect(trajectory).toMatchObject({
    end,
    reason: expect.stringMatching(reason),
    reward: { reward: 0, success: false },
  });
  // It is trained: its tokens are there, and its end is the model's own.
  expect(trajectory.tokens?.sampled).toContain(1);
  expect(brokenOff(trajectory)).toBeNull();
});

test("are told where half of the rollouts ended so", () => {
  const told = (moods: readonly string[]) =>
    agentMistakesText([...moods.map((mood) => playedAs(mood) as Trajectory), {}]);
  const cut = "cannot read a turn that was cut";
  expect(told([cut])).toMatch(
    /^1 of 2 rollouts ended by an error of the agent's code .* the first: its last turn was cut/,
  );
  expect(told([])).toBeUndefined();
});

test.each(Object.entries(faults))("one that %s has failed", (mood, error) => {
  expect(playedAs(mood)).toBeUndefined();
  expect(failureOf(mood)).toMatch(error);
});

describe("a task that says itself whose fault an error is", () => {
  let judged: Gathered;
  beforeAll(async () => {
    const moods = ["throws what the task names", "throws the AI SDK's error", "has a defect"];
    const all = [...moods, "exceeds its framework's turns", "runs a program that gives up"];
    const limits = { maxTurns: 8, maxTokens: 90 };
    const task = support("judged-mistakes.ts");
    judged = await playTask(task, all.map(scenarioOf), { concurrency: 4, maxExceptions: 100, limits });
  });

  test("says what it is worth, or leaves it to hone", () => {
    expect(playedAs("throws what the task names", judged)).toMatchObject({
      end: "model_mistake",
      reward: { reward: -0.5, success: false },
    });
    expect(playedAs("has a defect", judged)?.reward).toEqual({ reward: -1, success: false, parts: { defect: 1 } });
    expect(playedAs("exceeds its framework's turns", judged)).toMatchObject({
      end: "turn_limit",
      reward: { reward: 0 },
    });
  });

  test("has the last word on what hone takes for the model's mistake", () => {
    expect(judged.failures.map(({ id }) => id)).toEqual(["throws the AI SDK's error/0"]);
  });

  test("is told what is known of the error", () => {
    const seen = (mood: string) => JSON.parse(/^SEEN (.*)$/m.exec(playedAs(mood, judged)?.output ?? "")?.[1] ?? "null");
    expect(seen("runs a program that gives up")).toEqual({
      names: ["MaxTurnsExceeded"],
      end: "turn_limit",
      turns: 1,
      message: expect.stringContaining("Max turns (3) exceeded"),
      scenario: "runs a program that gives up",
    });
    expect(seen("exceeds its framework's turns").names).toEqual(["MaxTurnsExceededError", "AgentsError"]);
    expect(seen("has a defect")).not.toHaveProperty("end");
  });
});

test("a task that hone plays has no such word", () => {
  const task = {
    name: "t",
    scenarios: () => [],
    prompt: () => [],
    modelMistakes: ["X"],
    reward: () => ({ reward: 0, success: false, parts: {} }),
  };
  expect(() => defineTask(task as never)).toThrow("task t: modelMistakes is for a task with rollout");
});

describe("an answer or a call in another form than was asked for", () => {
  const content = ["is content with another form", "is content without the call"];
  const all = [...content, "asks for no form"].map(scenarioOf);
  const rewards = async (limits: object) => {
    const { groups } = await playTask(support("mistakes.ts"), all, { concurrency: 3, limits });
    return all.map(({ id }) => {
      const one = groups.flat().find(({ scenario }) => scenario.id === id) as Trajectory;
      expect(one.tokens?.sampled).toContain(1);
      return [one.reward, one.agent?.off_form];
    });
  };

  test("is counted, and the reward is the task's", async () => {
    const half = { reward: 0.5, parts: {} };
    expect(await rewards({})).toMatchObject([
      [{ reward: 0.5, success: true, parts: { polite: 1 } }, 1],
      [half, 1],
      [half, undefined],
    ]);
  });

  test("earns 0 with --off-form zero", async () => {
    expect(await rewards({ offForm: "zero" })).toMatchObject([
      [{ reward: 0, success: false, parts: { polite: 1, on_form: 0 } }, 1],
      [{ reward: 0, success: false, parts: { on_form: 0 } }, 1],
      [{ reward: 0.5, parts: {} }, undefined],
    ]);
  });
});
