/** A person's conversation with models that have a task's tools. The models are scripts here. */
import { expect, test } from "vitest";
import { z } from "zod";
import type { Opening, Session, Turn } from "../../src/core/rollout/session.js";
import { type AnyTask, type ChatMessage, defineTask, defineTool } from "../../src/core/task/task.js";
import { chat } from "../../src/hone/play/chat.js";

const scenario = { id: "s", split: "train", question: "What is 1 + 1?" } as const;
const task = defineTask({
  name: "chatted",
  scenarios: () => [scenario],
  prompt: ({ question }) => [
    { role: "system", content: "You add." },
    { role: "user", content: question },
  ],
  tools: [
    defineTool({
      name: "add",
      description: "Adds.",
      parameters: z.object({ a: z.number(), b: z.number() }),
      execute: ({ a, b }) => {
        if (a > 100) throw new Error("out of beads");
        return { sum: a + b };
      },
    }),
    defineTool({
      name: "answer",
      description: "Answers.",
      parameters: z.object({ value: z.number() }),
      final: true,
      execute: () => "thanks",
    }),
  ],
  reward: () => ({ reward: 0, success: false, parts: {} }),
}) as unknown as AnyTask;

type Said = string | { name: string; args: Record<string, unknown> } | "length" | "context";

/** Plays turns as written, and keeps what it hears. */
function speaker(name: string, turns: Said[]) {
  const heard: (readonly ChatMessage[])[] = [];
  const opened: Opening[] = [];
  let closed = 0;
  const session: Session = {
    turn: async (): Promise<Turn> => {
      const said = turns.shift() ?? "";
      if (said === "length" || said === "context") {
        return { content: "", calls: [], completionTokens: said === "length" ? 1 : 0, stop: said };
      }
      if (typeof said === "string") return { content: said, calls: [], completionTokens: 1, stop: "stop" };
      const call = { name: said.name, arguments: said.args };
      return { content: "", calls: [{ kind: "call", call }], completionTokens: 1, stop: "stop" };
    },
    respond: (messages) => heard.push([...messages]),
    close: () => closed++,
  };
  const open = (opening: Opening) => {
    opened.push(opening);
    return session;
  };
  return { name, open, heard, opened, closings: () => closed };
}

async function talk(lines: string[], speakers: ReturnType<typeof speaker>[], maxTurns = 4, about = task) {
  const shown: string[] = [];
  let writing = 0;
  const print = (text: string) => void shown.push(text);
  const terminal = { ask: async () => lines.shift(), print, show: print };
  const limits = { maxTurns, maxTokens: 9, turnSeconds: 9, toolSeconds: 9 };
  const signal = new AbortController().signal;
  const said = await chat({
    task: about,
    scenario,
    env: undefined,
    speakers,
    limits,
    terminal,
    useColours: false,
    signal,
    writing: () => {
      shown.push("writing");
      writing++;
      return () => void writing--;
    },
  });
  expect(writing).toBe(0);
  for (const one of speakers) expect(one.closings()).toBe(one.opened.length);
  return { shown: shown.join("\n"), said };
}

test("tools run, calls and results are shown, and the model hears what it has not been told", async () => {
  const model = speaker("m", [
    { name: "add", args: { a: 1, b: 1 } },
    { name: "answer", args: { value: 2 } },
    "You are welcome.",
  ]);
  const { shown, said } = await talk(["", "", "Thank you.", "quit"], [model]);
  expect(model.opened[0]?.messages.at(-1)).toEqual({ role: "user", content: "What is 1 + 1?" });
  expect(shown).toContain('⇒ add({"a":1,"b":1})');
  expect(shown).toContain('{"sum":2}');
  expect(model.heard).toEqual([
    [{ role: "tool", name: "add", content: '{"sum":2}' }],
    // What followed the answer: its result, and the person's next line.
    [
      { role: "tool", name: "answer", content: "thanks" },
      { role: "user", content: "Thank you." },
    ],
  ]);
  expect(said[0]?.messages.at(-1)).toEqual({ role: "assistant", content: "You are welcome." });
});

test("a person's own first line takes the place of the question, and each model hears every line", async () => {
  const [one, two] = [speaker("one", ["Hello.", "Yes."]), speaker("two", ["Hi.", "No."])];
  const { shown } = await talk(["Hey", "Sure?"], [one, two]);
  for (const { opened, heard } of [one, two]) {
    expect(opened[0]?.messages).toEqual([
      { role: "system", content: "You add." },
      { role: "user", content: "Hey" },
    ]);
    expect(heard).toEqual([[{ role: "user", content: "Sure?" }]]);
  }
  expect(shown.indexOf("— one")).toBeLessThan(shown.indexOf("— two"));
  // While a model writes that is shown, as it may take long.
  expect(
    shown
      .split("\n")
      .filter((line) => line.startsWith("—") || line === "writing")
      .slice(0, 4),
  ).toEqual(["— one", "writing", "— two", "writing"]);
});

test("what the prompt says around the question stays around a person's own", async () => {
  const model = speaker("m", ["Four."]);
  const around = { ...task, prompt: () => [{ role: "user", content: `It is May.\n\n${scenario.question}` }] };
  await talk(["What is $& + 2?"], [model], 4, around as AnyTask);
  expect(model.opened[0]?.messages).toEqual([{ role: "user", content: "It is May.\n\nWhat is $& + 2?" }]);
});

test("a tool that fails, a turn that is cut and one too many are told, and the talk goes on", async () => {
  const failing = { name: "add", args: { a: 101, b: 1 } };
  const model = speaker("m", [failing, "length", { name: "add", args: { a: 1, b: 2 } }, failing, "Done."]);
  const { shown } = await talk(["Add.", "Again.", "And?"], [model], 2);
  expect(shown).toContain("the tool add failed: out of beads");
  expect(shown).toContain("(cut at --max-tokens)");
  expect(shown).toContain("(2 turns without an answer: --max-turns)");
  expect(model.heard.at(-1)?.map(({ role }) => role)).toEqual(["tool", "user"]);
  expect(shown).toContain("Done.");
});

test("it ends when no model has room left", async () => {
  const { shown } = await talk(["One", "Two", "Three"], [speaker("m", ["Yes.", "context"])]);
  expect(shown).toContain("no room is left in the context");
});

test("the prompt's worked examples are shown with what their user says, and the question once", async () => {
  const example: ChatMessage[] = [
    { role: "user", content: "What is 2 + 3?" },
    { role: "assistant", content: "It is 5." },
  ];
  const prompt: AnyTask["prompt"] = (one, limits) => {
    const [system, ...question] = task.prompt(one, limits);
    return [system as ChatMessage, ...example, ...question];
  };
  const { shown } = await talk(["quit"], [speaker("m", [])], 4, { ...task, prompt });
  expect(shown).toMatch(/You add\.[\s\S]*What is 2 \+ 3\?[\s\S]*It is 5\./);
  expect(shown.match(/What is 1 \+ 1\?/g)).toHaveLength(1);
});
