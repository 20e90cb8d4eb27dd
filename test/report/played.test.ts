import { expect, test } from "vitest";
import type { Trajectory } from "../../src/core/rollout/trajectory.js";
import { playedText, wrap } from "../../src/insight/report/played.js";

const trajectory = {
  messages: [
    { role: "system", content: "You answer questions." },
    { role: "user", content: "Who leads Orion?" },
    { role: "assistant", content: "", tool_calls: [{ name: "search_inbox", arguments: { keywords: ["Orion"] } }] },
    { role: "tool", name: "search_inbox", content: "[]" },
    { role: "assistant", content: "I do not know." },
  ],
  end: "no_tool_call",
  turns: 2,
  reward: { reward: -0.1, success: false, parts: {} },
} as unknown as Trajectory;

test("a played text has calls, results, plain text and the verdict, but no prompt", () => {
  expect(playedText(trajectory).split("\n")).toEqual([
    '▸ search_inbox {"keywords":["Orion"]}',
    "  []",
    "▸ I do not know.",
    "✗ not solved: no_tool_call after 2 turns, reward -0.1",
  ]);
});

test("a long result is cut, and says so", () => {
  const long = {
    ...trajectory,
    messages: [...trajectory.messages, { role: "tool", name: "x", content: "y ".repeat(900) }],
  };
  const cut =
    playedText(long as Trajectory)
      .split("\n")
      .at(-2) ?? "";
  expect(cut.length).toBeLessThan(600);
  expect(cut).toMatch(/…$/);
});

test("wrapping loses no character that is not a space, and no line is too long", () => {
  const text = `${"word ".repeat(30)}${"x".repeat(90)}\nsecond line`;
  const lines = wrap(text, 40);
  expect(Math.max(...lines.map((line) => line.length))).toBeLessThanOrEqual(40);
  expect(lines.join("").replace(/\s/g, "")).toBe(text.replace(/\s/g, ""));
});
