/** What of a turn is sent while it is sampled: never what turns out to be a call, a thought or a stop text. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { Chat } from "../../src/chat/chat.js";
import { formatNamed, formats } from "../../src/chat/formats/formats.js";
import { readTurn } from "../../src/core/rollout/reading.js";
import { Deltas, reasoningOf, withoutBeginning } from "../../src/serve/deltas.js";

const marks = { open: "<think>", close: "</think>", ending: "\n</think>\n\n" };
const chatWith = (format: string, more: Partial<Chat> = {}) =>
  ({ format: formatNamed(format), marks: undefined, opened: false, ...more }) as Chat;

const parameters = { type: "object", properties: { n: { type: "integer" } } };
const tools = [{ type: "function" as const, function: { name: "a", description: "", parameters } }];

/** Sends a text in pieces, and puts together what was sent before the end and in all. */
function send(chat: Chat, pieces: readonly string[], withTools = true) {
  const deltas = new Deltas(chat, withTools, []);
  let text = "";
  const sent = { content: "", reasoning: "" };
  const take = ({ content = "", reasoning_content: reasoning = "" }: ReturnType<Deltas["push"]>) => {
    sent.content += content;
    sent.reasoning += reasoning;
  };
  for (const piece of pieces) {
    text += piece;
    take(deltas.push(text));
  }
  const early = { ...sent };
  const read = readTurn(chat, text, withTools ? tools : []);
  take(deltas.end(read));
  return { early, sent, read };
}

const words = [
  "Hello",
  " ",
  "\n",
  "a < b",
  "<tool",
  "_call>",
  '{"name": "a", "arguments": {}}',
  "</tool_call>",
  "<thi",
  "nk>",
  "</think>",
  "[TOOL_",
  "CALLS]",
  "{",
  "}",
  ";",
  "<|python_tag|>",
  "<|tool_",
  "func",
  "tools[",
  '[{"name": "a", "arguments": {}}]',
  "[add(a=",
  "1)]",
  "``",
  "`json",
  "call|>",
  "<function",
  "=a>",
  "<parameter=n>1</para",
  "meter></function>",
];
const pieces = fc.array(fc.constantFrom(...words), { maxLength: 12 });

describe("deltas", () => {
  for (const format of formats.map(({ name }) => name)) {
    for (const [name, more] of [
      ["without thoughts", {}],
      ["with thoughts", { marks }],
      ["inside thoughts", { marks, opened: true }],
    ] as const) {
      test(`${format} ${name}: the parts are the whole, whatever is sampled`, () => {
        fc.assert(
          fc.property(pieces, fc.boolean(), (sampled, withTools) => {
            const chat = chatWith(format, more);
            const { sent, read } = send(chat, sampled, withTools);
            expect(sent.content).toBe(read.said);
            expect(sent.reasoning).toBe(reasoningOf(read.thoughts, chat));
          }),
          { numRuns: 300, seed: 7 },
        );
      });
    }
  }

  test("text before a call is sent early, the call is not", () => {
    const { early, sent } = send(chatWith("hermes"), [
      "I look",
      " it up.\n<tool_",
      'call>\n{"name": "a", "arguments": {}}',
    ]);
    expect(early.content).toBe("I look it up.");
    expect(sent.content).toContain("<tool_call>");
    const whole = send(chatWith("hermes"), ["I look", '<tool_call>{"name": "a", "arguments": {}}</tool_call>']);
    expect(whole.sent.content).toBe("I look");
  });

  test("thoughts are sent as such, without their marks", () => {
    const { early } = send(chatWith("hermes", { marks }), ["<think>\nHm", ", yes.\n</thi", "nk>\n\nIt is", " so."]);
    expect(early).toEqual({ reasoning: "Hm, yes.", content: "It is so." });
  });

  test("what may be the beginning of a mark is held back", () => {
    expect(withoutBeginning("one <tool_", ["<tool_call>"])).toBe("one ");
    expect(withoutBeginning("one <tool?", ["<tool_call>"])).toBe("one <tool?");
    expect(withoutBeginning("aab", ["abc", "bcd"])).toBe("a");
  });
});
