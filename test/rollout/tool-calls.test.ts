import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { readToolCalls } from "../../src/rollout/tool-calls.js";

const call = (value: unknown) =>
  `<tool_call>\n${typeof value === "string" ? value : JSON.stringify(value)}\n</tool_call>`;

describe("readToolCalls", () => {
  it("reads several calls and the text around them", () => {
    const first = { name: "search_inbox", arguments: { keywords: ["a", "b"] } };
    const second = { name: "read_email", arguments: { message_id: "<1@x>" } };
    expect(readToolCalls(`Let me look.\n${call(first)}\n${call(second)} done`)).toEqual({
      content: "Let me look.\n\n done",
      calls: [
        { kind: "call", call: first },
        { kind: "call", call: second },
      ],
    });
  });

  it("finds no call in plain text", () => {
    expect(readToolCalls("The answer is 4.")).toEqual({ content: "The answer is 4.", calls: [] });
  });

  it.each([
    ["broken JSON", call('{"name": "x", "arguments": {'), /not valid JSON/],
    ["an array", call("[1]"), /not a JSON object/],
    ["no name", call({ arguments: {} }), /no "name"/],
    ["no arguments", call({ name: "x" }), /no "arguments"/],
    ["arguments that are a string", call({ name: "x", arguments: "{}" }), /no "arguments" object/],
    ["no closing tag", '<tool_call>\n{"name": "x", "arguments": {}}', /no <\/tool_call>/],
  ])("names what is wrong with %s and keeps the text", (_, text, reason) => {
    const turn = readToolCalls(`hm ${text}`);
    expect(turn.calls).toHaveLength(1);
    expect(turn.calls[0]).toMatchObject({ kind: "malformed", reason: expect.stringMatching(reason) });
    expect(turn.content).toBe(`hm ${text}`);
  });

  it("never throws, whatever a model writes", () => {
    const piece = fc.oneof(
      fc.constantFrom("<tool_call>", "</tool_call>", "{", "}", '"name"', '"arguments"', ":", '"x"', "\n", "\u0000"),
      fc.string(),
      fc.json().map((json) => call(json)),
    );
    fc.assert(
      fc.property(fc.array(piece), (pieces) => {
        const { calls, content } = readToolCalls(pieces.join(""));
        expect(typeof content).toBe("string");
        for (const written of calls) expect(["call", "malformed"]).toContain(written.kind);
      }),
      { seed: 7, numRuns: 2000 },
    );
  });
});
