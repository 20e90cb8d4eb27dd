/** What `yarn hone check` finds, each in a task that has that defect alone. */
import { afterAll, describe, expect, it } from "vitest";
import type { AnyTask } from "../../src/core/task/task.js";
import { defineTask, defineTool, type Scenario } from "../../src/core/task/task.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { modelFile } from "../../src/engine/models.js";
import { checkTask } from "../../src/hone/check/check.js";
import { z } from "../../src/index.js";
import { CommandLine } from "../support/command-line.js";

const answer = defineTool({
  name: "answer",
  description: "Give the answer.",
  parameters: z.object({ text: z.string().describe("what to say") }),
  final: true,
  execute: () => "",
});

interface Word extends Scenario {
  readonly word: string;
}

const words = ["one", "two", "three", "four", "five", "six"];

type Definition = Parameters<typeof defineTask<Word>>[0];

/** A task without a defect, with some of it replaced. */
function taskWith(change: Partial<Definition> = {}): AnyTask {
  return defineTask<Word>({
    name: "words",
    scenarios: () =>
      words.map((word, i) => ({ id: word, split: i < 4 ? "train" : "test", question: `Say ${word}.`, word })),
    prompt: ({ question }) => [{ role: "user", content: question }],
    tools: [answer],
    reward: ({ answer }, { word }) => {
      const success = answer?.text === word;
      return { reward: success ? 1 : 0, success, parts: {} };
    },
    *expert({ word }) {
      yield [{ name: "answer", arguments: { text: word } }];
    },
    ...change,
  }) as unknown as AnyTask;
}

const check = (task: AnyTask, more: { context?: number; n?: number } = {}) =>
  checkTask({
    task,
    reference: "",
    taskOptions: { seed: 1 },
    n: more.n ?? 16,
    seed: 1,
    maxTurns: 3,
    toolSeconds: 5,
    model: modelFile("tiny"),
    context: more.context ?? 8192,
    signal: new AbortController().signal,
  });

const found = async (change: Partial<Definition>, more = {}) =>
  (await check(taskWith(change), more)).findings.map(({ level, kind, message }) => `${level} ${kind}: ${message}`);

const earns =
  (reward: number, success = false) =>
  () => ({ reward, success, parts: {} });

/** A second tool, which the expert calls before it answers. */
const looking = (execute: () => unknown): Partial<Definition> => ({
  tools: [answer, defineTool({ name: "look", description: "Look it up.", parameters: z.object({}), execute })] as never,
  *expert({ word }) {
    yield [{ name: "look", arguments: {} }];
    yield [{ name: "answer", arguments: { text: word } }];
  },
});

describe("a task that is sound", () => {
  it("has nothing found, and says how much was looked at", async () => {
    const result = await check(taskWith());
    expect(result).toMatchObject({ task: "words", scenarios: { train: 4, test: 2 }, played: 24, findings: [] });
    expect(result.longest_prompt).toBeGreaterThan(10);
    expect((await check(taskWith(), { n: 1 })).played).toBe(8);
  });
});

describe("a defect is found:", () => {
  const cases: [string, Partial<Definition>, RegExp][] = [
    [
      "a reward that throws",
      {
        reward: ({ answer }) => {
          if (answer === undefined) throw new Error("answer is undefined\nat line 3");
          return { reward: answer.text === "" ? 0.2 : 0.5, success: false, parts: {} };
        },
        expert: undefined as never,
      },
      /^error task_throws: the task threw in 6 of 18 rollouts \(silence, scenario \w+\): answer is undefined$/,
    ],
    [
      "a prompt that throws",
      {
        prompt: () => {
          throw new Error("no words");
        },
      },
      /^error task_throws: the task threw in 24 of 24 rollouts .*no words$/,
    ],
    [
      "a reward that is no number",
      { reward: earns(Number.NaN) },
      /^error task_throws: the task threw in 24 of 24 rollouts .*NaN/,
    ],
    [
      "a misspelt field of a reward",
      { reward: (() => ({ reward: 1, succes: true, parts: {} })) as never },
      /^error task_throws: the task threw in 24 of 24 rollouts .*"succes", which is no field of a reward: did you mean "success"\?$/,
    ],
    [
      "a question that is missing, where the prompt uses it",
      { scenarios: () => ["train", "test"].map((split) => ({ id: split, split, qestion: "?", word: split })) as never },
      /^error task_throws: the task threw in 8 of 8 rollouts .*message 1 of the prompt has no content$/,
    ],
    [
      "a reward that is constant",
      { reward: earns(0.5, true) },
      /^error reward_constant: every rollout earned 0\.5, the expert's too: only differences teach$/,
    ],
    [
      "a reward that is constant, and no expert to compare with",
      { reward: earns(0), expert: undefined as never },
      /^warning reward_constant: every rollout earned 0; give the task an expert/,
    ],
    [
      "a reward that an empty answer wins",
      {
        // "".includes is in every word.
        reward: ({ answer }, { word }) => {
          const success = answer !== undefined && word.includes(String(answer.text));
          return { reward: success ? 1 : 0, success, parts: {} };
        },
      },
      /^error empty_answer_wins: an empty answer, \{"text":""\}, earns 1 on average, no less than the expert$/,
    ],
    [
      "a reward that an empty answer wins now and then",
      {
        reward: ({ answer }, { word }) => {
          const success = answer?.text === word || (answer?.text === "" && word === "six");
          return { reward: success ? 1 : 0, success, parts: {} };
        },
      },
      /^error empty_answer_wins: an empty answer, \{"text":""\}, solves 1 of 6 scenarios; is it right there\? six$/,
    ],
    [
      "a number that is the least there is and right now and then, to be looked at",
      {
        tools: [
          defineTool({
            ...answer,
            parameters: z.object({ letters: z.int().describe("how many") }),
            execute: () => "",
          }) as never,
        ],
        reward: ({ answer }, { word }) => {
          const success = answer?.letters === (word === "six" ? 0 : word.length);
          return { reward: success ? 1 : 0, success, parts: {} };
        },
        *expert({ word }) {
          yield [{ name: "answer", arguments: { letters: word === "six" ? 0 : word.length } }];
        },
      },
      /^warning empty_answer_wins: an empty answer, \{"letters":0\}, solves 1 of 6 scenarios; is it right there\? six$/,
    ],
    [
      "a tool that throws, and the expert's calls of it",
      {
        tools: [
          answer,
          defineTool({
            name: "count",
            description: "Count the words.",
            parameters: z.object({}),
            execute: () => {
              throw new TypeError("words is undefined");
            },
          }),
        ] as never,
        *expert() {
          yield [{ name: "count", arguments: {} }];
        },
        reward: ({ answer }) => ({ reward: answer?.text === "" ? 0.2 : 0, success: false, parts: {} }),
      },
      /^error tool_failed: the tool count failed: words is undefined; in 6 of 24 rollouts \(expert, scenario \w+\)$/,
    ],
    [
      "an expert that yields a call alone",
      {
        *expert() {
          yield { name: "answer", arguments: {} } as never;
        },
        reward: ({ answer }) => ({ reward: answer?.text === "" ? 0.2 : 0, success: false, parts: {} }),
      },
      /^error task_throws: .*the expert of task words must yield a list of calls, \[{ name, arguments }\], a text, or/,
    ],
    [
      "an expert that is no generator",
      {
        expert: (() => [[{ name: "answer", arguments: {} }]]) as never,
        reward: ({ answer }) => ({ reward: answer?.text === "" ? 0.2 : 0, success: false, parts: {} }),
      },
      /^error task_throws: .*the expert of task words is no generator: write \*expert\(\.\.\.\)/,
    ],
    [
      "a tool without a description",
      { tools: [{ ...answer, description: " " } as never] },
      /^error no_description: tools without a description: answer$/,
    ],
    [
      "an argument without a description",
      { tools: [defineTool({ ...answer, parameters: z.object({ text: z.string() }) }) as never] },
      /^warning no_description: arguments without a description .*: answer\.text$/,
    ],
    [
      "a scenario of both splits",
      {
        scenarios: () =>
          words.map((word, i) => ({
            id: `${i}`,
            split: i < 4 ? "train" : "test",
            question: i < 5 ? word : "one",
            word: i < 5 ? word : "one",
          })),
      },
      /^error repeated_scenario: 1 test scenarios are also trained on, .*: 5 is 0$/,
    ],
    [
      "a question of both splits, in other scenarios",
      {
        scenarios: () =>
          words.map((word, i) => ({
            id: `${i}`,
            split: i < 4 ? "train" : "test",
            question: i < 5 ? word : " one",
            word,
          })),
      },
      /^warning repeated_question: 1 test questions are trained on too, .*: 5 is that of 0$/,
    ],
    [
      "a split without scenarios",
      { scenarios: () => words.map((word) => ({ id: word, split: "train", question: word, word })) },
      /^error no_scenarios: the test split has no scenario/,
    ],
    [
      "an expert that fails",
      {
        *expert({ word }) {
          yield [{ name: "answer", arguments: { text: word === "two" ? "twice" : word } }];
        },
      },
      /^warning expert_fails: the expert does not solve 1 of 6 scenarios: two$/,
    ],
    [
      "a prompt that leaves out the question",
      { prompt: () => [{ role: "user", content: "Say the word." }] },
      /^warning same_prompt: 6 scenarios with different questions have the same prompt: what should tell the model which it is\?$/,
    ],
    [
      "a name that can be no folder's",
      { name: "my words" },
      /^warning name_refused: the name "my words" cannot be a folder's: use letters, .* or train with --project NAME$/,
    ],
    [
      "a result that JSON loses",
      looking(() => ({ rows: [{ price: Number.NaN }, new Map()] })),
      /^warning result_lost: the tool look returned NaN at \.rows\[0\]\.price, which JSON writes as null; return what JSON can write/,
    ],
    [
      "a result that JSON loses whole",
      looking(() => new Set([1])),
      /^warning result_lost: the tool look returned a set, which JSON writes as {};/,
    ],
    [
      "a result that is longer than the context",
      looking(() => "so ".repeat(20_000)),
      /^error result_too_long: tools returned more tokens than a context of 4096 has, which ends a rollout: look \d+$/,
    ],
  ];
  it.each(cases)("%s", async (_, change, message) => {
    const findings = await found(change);
    expect(findings).toHaveLength(1);
    expect(findings[0]).toMatch(message);
  });

  it("a prompt beyond the context", async () => {
    const prompt: Definition["prompt"] = ({ word }) => [
      { role: "user", content: word === "six" ? "so ".repeat(300) : word },
    ];
    expect(await found({ prompt }, { context: 200 })).toEqual([
      expect.stringMatching(
        /^error prompt_too_long: 1 of 6 prompts leave no room in a context of 200 tokens: six \d+$/,
      ),
    ]);
    expect(await found({ prompt })).toEqual([]);
  });
});

describe("yarn hone check", () => {
  const commandLine = new CommandLine();
  afterAll(() => commandLine.close());
  const run = (...args: string[]) => commandLine.run(packageRoot, "check", ...args);

  it("finds no error in the examples, and fails where there is one", async () => {
    for (const name of ["arithmetic", "guessing"]) {
      const { status, stdout, stderr } = await run(`examples/${name}.ts`, "--n", "4");
      expect([status, stderr], stdout).toEqual([0, ""]);
    }
    const { status, stdout, stderr } = await run("examples/arithmetic.ts", "--n", "2", "--context", "32", "--json");
    expect(status).toBe(1);
    expect(stderr.trimEnd().split("\n").at(-1)).toBe("hone: check: 1 error in the task arithmetic");
    expect(JSON.parse(stdout)).toMatchObject({
      error: expect.any(String),
      task: "arithmetic",
      findings: [{ level: "error", kind: "prompt_too_long" }, { level: "warning" }],
    });
  });
});
