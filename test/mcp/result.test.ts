import { expect, it } from "vitest";
import { type CallResult, resultText } from "../../src/agent/mcp/result.js";
import type { ServerEvent } from "../../src/core/task/servers.js";
import { ToolError } from "../../src/core/task/task.js";

const read = (result: CallResult, budget = 100) => {
  const events: ServerEvent[] = [];
  return { text: resultText(result, budget, (event) => events.push(event)), events };
};
const text = (words: string) => ({ type: "text", text: words });

it("shows text, and structured data where there is no text", () => {
  expect(read({ content: [text("a"), text("b")], structuredContent: { n: 1 } })).toEqual({ text: "a\nb", events: [] });
  expect(read({ content: [], structuredContent: { n: 1 } }).text).toBe('{"n":1}');
  expect(read({ content: [] }).text).toBe("");
  const link = { type: "resource_link", uri: "file:///a", name: "a" };
  const inside = { type: "resource", resource: { uri: "file:///a", text: "its text" } };
  expect(read({ content: [link, inside] }).text).toBe("[resource a file:///a]\nits text");
});

it("cuts what is longer than the budget, between characters, and says so", () => {
  expect(read({ content: [text("x".repeat(100))] })).toEqual({ text: "x".repeat(100), events: [] });
  const { text: cut, events } = read({ content: [text("😀".repeat(3000))] }, 101);
  expect(cut).toBe(`${"😀".repeat(50)}\n[cut: these are the first 100 of 6,000 characters]`);
  expect(events).toEqual(["result_cut"]);
});

it("leaves out what is no text, and says what it was", () => {
  const image = { type: "image", mimeType: "image/png", data: "A".repeat(4000) };
  const blob = { type: "resource", resource: { uri: "x://y", mimeType: "application/zip", blob: "AAAA" } };
  const { text: shown, events } = read({ content: [text("here:"), image, blob, { type: "hologram" }] }, 1000);
  expect(shown.split("\n")).toEqual([
    "here:",
    "[image image/png, 3,000 bytes, left out: only text is shown]",
    "[resource x://y application/zip, 3 bytes, left out: only text is shown]",
    "[hologram, 0 bytes, left out: only text is shown]",
  ]);
  expect(events).toEqual(["binary_left_out", "binary_left_out", "binary_left_out"]);
});

it("has the model read an error, cut too", () => {
  expect(() => read({ content: [text("no such file")], isError: true })).toThrow(new ToolError("no such file"));
  expect(() => read({ content: [], isError: true })).toThrow("did not say why");
  expect(() => read({ content: [text("x".repeat(300))], isError: true })).toThrow(/^x{100}\n\[cut/);
});
