/** A model whose calls are of another format than its template's is known by it. */
import { expect, test } from "vitest";
import type { ChatMessage, ToolSchema } from "../../src/core/task/task.js";
import { unreadCalls } from "../../src/insight/report/unread-calls.js";

const tools: ToolSchema[] = ["add", "sub"].map((name) => ({
  type: "function",
  function: { name, description: name, parameters: { type: "object" } },
}));
const bare = '{"name": "add", "arguments": {"a": 1}}';
const call = (turn: number) => ({ turn, name: "add", arguments: {}, outcome: "ok" as const, result: null });

function told(
  rollouts: readonly (readonly string[])[],
  {
    calls = [],
    success = false,
    kind = "engine",
  }: { calls?: ReturnType<typeof call>[]; success?: boolean; kind?: "engine" | "api" } = {},
) {
  const played = rollouts.map((turns) => {
    const said = turns.map((content): ChatMessage => ({ role: "assistant", content }));
    const example: ChatMessage[] = [
      { role: "user", content: "1 + 1" },
      { role: "assistant", content: bare },
    ];
    const messages = [...example, { role: "user", content: "1 + 2" } as const, ...said];
    return { messages, turns: turns.length, calls, player: { kind }, reward: { success } };
  });
  return unreadCalls(tools, played);
}

test.each([
  [bare, "json"],
  [`\`\`\`json\n[${bare}]\n\`\`\``, "json"],
  [`<think>add?</think>\n${bare}`, "json"],
  [`<tool_call>\n${bare}\n</tool_call>`, "hermes"],
  [`[TOOL_CALLS][${bare}]`, "mistral"],
  ["[add(a=1)]", "pythonic"],
  ["<tool_call>\n<function=add>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>", "qwen3coder"],
])("%s is a call of another format", (text, format) => {
  const unread = told([[text], ["I do not know."]]);
  expect(unread.format).toBe(format);
  expect(unread.text).toBe(`no tool call in any of 2 turns; --tool-format ${format} reads calls in 1 of them`);
});

test("a turn in which no format finds a call of the tools is none of them", () => {
  const unread = told([["3"], ['{"name": "look", "arguments": {}}'], ['{"name": "add", "arguments": {a: 1}}'], []]);
  expect(unread.format).toBeUndefined();
  expect(unread.text).toBe("no tool call in any of 3 turns, in none of the formats that hone reads");
});

test("where there are calls, another format is named if it reads more turns", () => {
  const calls = [call(1)];
  expect(told([["hm", bare, bare]], { calls }).text).toBe(
    "tool calls in 1 of 3 turns; --tool-format json reads calls in 2 others",
  );
  expect(told([["hm", bare, "3"]], { calls }).text).toBeUndefined();
});

test("nothing is told of answers that need no calls, of other players, and without turns or tools", () => {
  expect(told([["3"]], { success: true }).text).toBeUndefined();
  expect(told([[bare]], { kind: "api" }).text).toBeUndefined();
  expect(told([[]]).text).toBeUndefined();
  const rollout = {
    messages: [{ role: "assistant" as const, content: bare }],
    turns: 1,
    calls: [],
    player: { kind: "engine" as const },
    reward: { success: false },
  };
  expect(unreadCalls([], [rollout]).text).toBeUndefined();
});
