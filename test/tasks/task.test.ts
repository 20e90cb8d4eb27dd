import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { z } from "zod";
import { playRollout, type RolloutLimits } from "../../src/core/rollout/rollout.js";
import type { Session, Turn } from "../../src/core/rollout/session.js";
import { type AnyTask, type ChatMessage, defineTask, defineTool, type Scenario } from "../../src/core/task/task.js";
import { HoneError } from "../../src/core/util/errors.js";
import { Random } from "../../src/core/util/random.js";
import { ExpertSession } from "../../src/hone/expert-session.js";
import { loadTask, scenariosOf } from "../../src/scenarios/load.js";

const limits: RolloutLimits = {
  maxTurns: 3,
  maxTokens: 100,
  turnSeconds: 5,
  toolSeconds: 0.2,
  rolloutSeconds: 10,
  onToolError: "observe",
};
const scenario: Scenario = { id: "one", split: "train", question: "How many?" };

const about = {
  scenarios: () => [scenario],
  prompt: ({ question }: Scenario) => [{ role: "user" as const, content: question }],
  reward: ({ answer }: { answer: Readonly<Record<string, unknown>> | undefined }) => {
    const success = answer?.text === "two";
    return { reward: success ? 1 : 0, success, parts: {} };
  },
};
const count = defineTool({
  name: "count",
  description: "Count.",
  parameters: z.object({}),
  execute: () => 2,
});
const answer = defineTool({ ...count, name: "answer", final: true });

/** A player that writes the given turns. */
class Script implements Session {
  readonly heard: (readonly ChatMessage[])[] = [];
  readonly #turns: Partial<Turn>[];

  constructor(...turns: (string | Partial<Turn>)[]) {
    this.#turns = turns.map((turn) => (typeof turn === "string" ? { content: turn } : turn));
  }

  async turn(): Promise<Turn> {
    return { content: "", calls: [], completionTokens: 1, stop: "stop", ...this.#turns.shift() };
  }

  respond(messages: readonly ChatMessage[]): void {
    this.heard.push(messages);
  }

  close = () => undefined;
}

const call = { calls: [{ kind: "call" as const, call: { name: "count", arguments: {} } }] };
const play = (task: unknown, session: Session, more: Partial<RolloutLimits> = {}) =>
  playRollout({
    task: task as AnyTask,
    scenario,
    env: undefined,
    session,
    limits: { ...limits, ...more },
    signal: new AbortController().signal,
  });

// First: loading a file holds the thread longer than a hanging reply below may take.
describe("a task file with a mistake", () => {
  const folder = mkdtempSync(join(tmpdir(), "hone-task-file-"));
  afterAll(() => rmSync(folder, { recursive: true }));

  const fields = {
    name: 'name: "cats"',
    scenarios: `scenarios: () => [{ id: "cat", split: "train", question: "?" }]`,
    prompt: `prompt: ({ question }) => [{ role: "user", content: question }]`,
    reward: "reward: () => ({ reward: 1, success: true, parts: {} })",
  };
  let files = 0;
  /** One field a line, from the fourth line on. */
  const load = (change: Partial<Record<keyof typeof fields | "more", string>>) => {
    const file = join(folder, `cats${++files}.ts`);
    const lines = Object.values({ ...fields, ...change }).map((field) => `  ${field},\n`);
    writeFileSync(
      file,
      `import { composeReward, defineTask, defineTool, z } from "@hone-rl/hone";\nconst none: any = undefined;\nexport default defineTask({\n${lines.join("")}});\n`,
    );
    return loadTask(file);
  };
  const messageOf = (work: Promise<unknown>) =>
    work.then(
      () => "nothing",
      (error: Error) => error.message.replaceAll(folder, "").replace(/cats\d+/g, "cats"),
    );

  it.each([
    [
      { reward: fields.reward.replace("reward", "rewrad") },
      'the task has no "reward"; it has "rewrad", which is no field of a task: did you mean "reward"?',
    ],
    [
      { prompt: fields.prompt.replace("prompt", "promt") },
      'the task has no "prompt"; it has "promt", which is no field of a task: did you mean "prompt"?',
    ],
    [
      { scenarios: fields.scenarios.replace("scenarios", "scenaros") },
      'the task has no "scenarios"; it has "scenaros", which is no field of a task: did you mean "scenarios"?',
    ],
    [
      { name: 'nmae: "cats"' },
      'the task has no "name"; it has "nmae", which is no field of a task: did you mean "name"?',
    ],
    [
      { name: 'nmae: "cats"', more: 'name: "cats"' },
      'the task has "nmae", which is no field of a task: did you mean "name"?',
    ],
    [{ more: "*exprt() {}" }, 'the task has "exprt", which is no field of a task: did you mean "expert"?'],
    [
      { more: "maxTurns: 3" },
      'the task has "maxTurns", which is no field of a task: there are name, description, options, scenarios, open, close, prompt, tools, mcp, reply, reward, rollout, setUp, tearDown, finalTools, modelMistakes, claim, freeAnswers, shaped, expert',
    ],
    [{ more: "rollout: () => 1" }, undefined],
    [{ reward: "reward: 1" }, 'the task\'s "reward" must be a function'],
  ])("has its field named: %j", async (change, problem) => {
    const message = await messageOf(load(change));
    if (problem === undefined)
      expect(message).toMatch(/^the task file \/cats\.ts could not be loaded: .*leave prompt out \(cats\.ts:3\)$/);
    else expect(message).toBe(`/cats.ts: ${problem}`);
  });

  it("is loaded where nothing is wrong", async () => {
    expect((await load({})).name).toBe("cats");
  });

  it("has a split that is none named, with the number of its scenarios", async () => {
    const task = await load({
      scenarios: `scenarios: () => ["a", "b"].map((id) => ({ id, split: "trian", question: id }))`,
    });
    await expect(scenariosOf(task, {})).rejects.toThrow('split "trian" of 2 scenarios is neither train nor test');
  });

  it.each([
    ["id", '["a", "b", "a"]', "two scenarios have the id a; give each a text of its own"],
    ["id, words: new Map()", '["a"]', "the scenario a of the task cats is no plain data: words is a Map"],
    ["id, words: Promise.resolve([])", '["a"]', "words is a Promise"],
    ["id, words: { all: new Set() }", '["a"]', "is no plain data: all is a Set"],
  ])("has no scenarios { %s } of %s", async (given, ids, problem) => {
    const task = await load({
      scenarios: `scenarios: () => ${ids}.map((id) => ({ split: "train", question: id, ${given} }))`,
    });
    await expect(scenariosOf(task, {})).rejects.toThrow(problem);
  });

  it("has a message of the prompt without a text named before a template reads it", async () => {
    const prompt = (content: string) =>
      load({
        prompt: `prompt: ({ word }) => [{ role: "system", content: "Hi" }, { role: "user", content: ${content} }]`,
      });
    const first = async (content: string) => messageOf(play(await prompt(content), new Script("two")));
    expect(await first("word")).toBe("scenario one: message 2 of the prompt has no content");
    expect(await first("5")).toBe("scenario one: message 2 of the prompt has 5 as its content, which is no text");
    expect(await first('[{ type: "image", url: "x" }]')).toMatch(
      /message 2 .* has \[.*\] as its content, which is no text$/,
    );
    expect(await messageOf(play(await load({ prompt: 'prompt: () => "Hi"' }), new Script("two")))).toMatch(
      /^scenario one: the prompt is no list of messages/,
    );
    const wizard = await load({ prompt: 'prompt: () => [{ role: "wizard", content: "Hi" }]' });
    expect(await messageOf(play(wizard, new Script("two")))).toBe(
      'scenario one: message 1 of the prompt has the role "wizard", which is none of system, user, assistant, tool',
    );
  });

  it("has texts in parts and OpenAI's role of a developer as the templates read them", async () => {
    const parts = '[{ type: "text", text: "Hi" }, { type: "text", text: " there" }]';
    const task = await load({
      prompt: `prompt: () => [{ role: "developer", content: "Be brief." }, { role: "user", content: ${parts} }]`,
    });
    const { messages } = await play(task, new Script("two"));
    expect(messages.slice(0, 2)).toEqual([
      { role: "system", content: "Be brief." },
      { role: "user", content: "Hi there" },
    ]);
  });

  it("has its scenarios in a list", async () => {
    const task = await load({ scenarios: "scenarios: () => { [1]; }" });
    await expect(scenariosOf(task, {})).rejects.toThrow(
      "what scenarios returned is no list; return [{ id, split, ... }",
    );
  });

  it.each([
    [
      "({ reward: 1, succes: true, parts: {} })",
      'has "succes", which is no field of a reward: did you mean "success"?',
    ],
    ['({ reward: "1", success: true, parts: {} })', 'is "1" (a string), not a finite number'],
    ['({ reward: 1, success: "no" })', 'has the success "no" (a string), not true or false'],
    ["({ reward: 1, success: true, parts: 1 })", "has the parts 1, not an object"],
    [
      '({ reward: 1, success: true, parts: { right: 1, near: "0" } })',
      'has the part near: "0" (a string), not a finite number',
    ],
    ["1", "is 1, not an object: return { reward, success, parts }"],
    ["undefined", "is undefined, not an object: return { reward, success, parts }"],
    ["({ reward: 1 })", 'has no "success": return { reward, success, parts }'],
  ])("has its reward %s explained", async (returned, problem) => {
    const task = await load({ reward: `reward: () => ${returned}` });
    expect(await messageOf(play(task, new Script("two")))).toBe(`the reward of task cats for scenario one ${problem}`);
  });

  it("has the line named at which its code throws, or cannot be parsed", async () => {
    const thrown = "Cannot read properties of undefined (reading 'foo')";
    const reward = await load({ reward: "reward: async () => { await 1; return none.foo; }" });
    expect(await messageOf(play(reward, new Script("two")))).toBe(`${thrown} (cats.ts:7)`);
    const prompt = await load({ prompt: "prompt: () => none.foo" });
    expect(await messageOf(play(prompt, new Script("two")))).toBe(`${thrown} (cats.ts:6)`);
    const part = await load({
      reward: `reward: composeReward({ parts: { a: { weight: 1, score: () => none.foo } }, success: "a" })`,
    });
    expect(await messageOf(play(part, new Script("two")))).toBe(
      `the part a of the reward, on scenario one, threw: ${thrown} (cats.ts:7)`,
    );
    const tool = await load({
      more: `tools: [defineTool({ name: "count", description: "Count.", parameters: z.object({}), execute: () => none.foo })]`,
    });
    expect((await play(tool, new Script(call))).reason).toMatch(
      /^the tool count failed: .*\(reading 'foo'\) \(cats\d+\.ts:8\)$/,
    );
    const scenarios = await load({ scenarios: "scenarios: () => none.foo" });
    expect(await messageOf(scenariosOf(scenarios, {}))).toBe(
      `the task cats could not list its scenarios: ${thrown} (cats.ts:5)`,
    );
    expect(await messageOf(load({ name: 'name: "cats" "dogs"' }))).toBe(
      'the task file /cats.ts could not be loaded: ParseError: Unexpected token, expected "," (cats.ts:4)',
    );
    expect(await messageOf(load({ name: "name: none.foo" }))).toBe(
      `the task file /cats.ts could not be loaded: ${thrown} (cats.ts:4)`,
    );
  });

  it("keeps what a tool says to the model as it is", async () => {
    const tool = await load({
      more: `tools: [defineTool({ name: "count", description: "Count.", parameters: z.object({}), execute: () => { throw Object.assign(new Error("no"), { name: "ToolError" }); } })]`,
    });
    expect((await play(tool, new Script(call))).reason).toBe("the tool count failed: no");
  });
});

describe("a task without a final tool", () => {
  it("is answered by plain text, without tools", async () => {
    const task = defineTask({ ...about, name: "plain" });
    expect(task.tools).toEqual([]);
    const { end, answer, reward, messages } = await play(task, new Script("two"));
    expect({ end, answer, success: reward.success }).toEqual({
      end: "answered",
      answer: { text: "two" },
      success: true,
    });
    expect(messages.at(-1)).toEqual({ role: "assistant", content: "two" });
  });

  it("is answered by plain text after tools", async () => {
    const task = defineTask({ ...about, name: "tools", tools: [count] });
    const session = new Script(call, "two");
    const { end, answer, calls, turns } = await play(task, session);
    expect({ end, answer, turns }).toEqual({ end: "answered", answer: { text: "two" }, turns: 2 });
    expect(calls).toMatchObject([{ name: "count", outcome: "ok", result: 2 }]);
    expect(session.heard).toEqual([[{ role: "tool", name: "count", content: "2" }]]);
  });

  it("takes the answer without the thoughts, which stay in the message", async () => {
    const task = defineTask({ ...about, name: "thoughts" });
    const { answer, messages } = await play(task, new Script({ content: "<think>Hm.</think> two", said: " two" }));
    expect(answer).toEqual({ text: "two" });
    expect(messages.at(-1)?.content).toBe("<think>Hm.</think> two");
  });

  it.each(["", " \n"])("is not answered by nothing: %j", async (text) => {
    const { end, answer } = await play(defineTask({ ...about, name: "plain" }), new Script(text));
    expect({ end, answer }).toEqual({ end: "no_tool_call", answer: undefined });
  });

  it("still refuses two tools of one name", () => {
    expect(() => defineTask({ ...about, name: "twice", tools: [count, count] })).toThrow(/two tools are called count/);
  });
});

it.each([
  ["without execute", [{ ...count, execute: undefined }], 'the tool count has no function "execute"'],
  ["without a description", [{ ...count, description: undefined }], "the tool count has no description"],
  ["without a name", [{ ...count, name: undefined }], "tool name undefined: use letters"],
  ["with plain parameters", [{ ...count, parameters: { type: "object" } }], "a tool's parameters are a z.object"],
  ["by their names", { count }, "task wrong: tools is no list; write [defineTool({...})]"],
])("tools %s are refused where the task is defined", (_, tools, message) => {
  expect(() => defineTask({ ...about, name: "wrong", tools: tools as never })).toThrow(message);
});

it("an error of close is told as the task's", async () => {
  const close = () => {
    throw "still in use";
  };
  await expect(defineTask({ ...about, name: "shut", close }).close(undefined)).rejects.toThrow(
    new HoneError("close of the task shut failed: still in use"),
  );
});

it("options that are no schema are refused where the task is defined", () => {
  expect(() => defineTask({ ...about, name: "wrong", options: { steps: z.int() } as never })).toThrow(
    "task wrong: options is no z.object({...}) of hone's own `z` (zod 4)",
  );
});

describe("a task that answers back", () => {
  const asked: { text: string; turns: number; said: number }[] = [];
  const task = defineTask({
    ...about,
    name: "back",
    tools: [count],
    reply: ({ messages, turns }, text) => {
      asked.push({ text, turns, said: messages.length });
      return text === "two" ? null : `not ${text}`;
    },
  });

  it("goes on as the user until it has nothing more to say", async () => {
    asked.length = 0;
    const session = new Script("one", call, "two");
    const { end, answer, messages, turns } = await play(task, session);
    expect({ end, answer, turns }).toEqual({ end: "answered", answer: { text: "two" }, turns: 3 });
    expect(asked).toEqual([
      { text: "one", turns: 1, said: 2 },
      { text: "two", turns: 3, said: 6 },
    ]);
    expect(messages.map(({ role }) => role)).toEqual(["user", "assistant", "user", "assistant", "tool", "assistant"]);
    expect(session.heard[0]).toEqual([{ role: "user", content: "not one" }]);
  });

  it("ends at the turn limit, its last reply in the messages", async () => {
    const { end, answer, turns, messages } = await play(task, new Script("one", "three", "four", "two"));
    expect({ end, answer, turns }).toEqual({ end: "turn_limit", answer: undefined, turns: 3 });
    expect(messages.at(-1)).toEqual({ role: "user", content: "not four" });
  });

  it("and has a final tool ends without an answer when it has nothing to say", async () => {
    const { end } = await play(defineTask({ ...task, tools: [count, answer] }), new Script("one", "two"));
    expect(end).toBe("no_tool_call");
  });

  it.each([
    ["throws", () => Promise.reject(new Error("no voice")), /the task's reply failed: no voice/],
    ["hangs", () => new Promise<string>(() => undefined), /the task's reply did not return within 0\.2 seconds/],
    ["returns no text", () => 5 as unknown as string, /the task's reply failed: it returned neither a text nor null/],
  ])("ends the rollout as a tool's failure does when it %s", async (_, reply, reason) => {
    const { end, reason: why } = await play(defineTask({ ...about, name: "bad", reply }), new Script("one"));
    expect(end).toBe("tool_failure");
    expect(why).toMatch(reason);
  });

  it("is played by an expert that writes texts and hears the replies", async () => {
    const heard: unknown[] = [];
    const spoken = defineTask<Scenario>({
      ...about,
      name: "expert",
      tools: [count],
      reply: (_, text) => (text === "two" ? null : `not ${text}`),
      *expert() {
        const first = yield "one";
        heard.push(first.reply, [...first]);
        const [record] = yield [{ name: "count", arguments: {} }];
        heard.push(record?.result);
        yield "two";
      },
    });
    const session = new ExpertSession(spoken as unknown as AnyTask, scenario, new Random("e"), {});
    expect((await play(spoken, session)).reward.success).toBe(true);
    expect(heard).toEqual(["not one", [], 2]);
  });

  it("is played by an expert that writes a text before its calls, which is no answer", async () => {
    const thoughtful = defineTask<Scenario>({
      ...about,
      name: "expert",
      tools: [count],
      reply: (_, text) => (text === "two" ? null : `not ${text}`),
      *expert() {
        const [record] = yield { text: "Let me count.", calls: [{ name: "count", arguments: {} }] };
        yield record?.result === 2 ? "two" : "lost";
      },
    });
    const session = new ExpertSession(thoughtful as unknown as AnyTask, scenario, new Random("e"), {});
    const { messages, reward } = await play(thoughtful, session);
    expect(reward.success).toBe(true);
    expect(messages.map(({ role, content }) => `${role}: ${content}`)).toEqual([
      expect.stringMatching(/^user: /),
      "assistant: Let me count.",
      "tool: 2",
      "assistant: two",
    ]);
    expect(messages[1]).toHaveProperty("tool_calls.0.name", "count");
  });
});
