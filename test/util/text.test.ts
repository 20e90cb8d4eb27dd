import { spawnSync } from "node:child_process";
import { expect, it, onTestFinished, vi } from "vitest";
import { cutText, painter, printable, printableJson, printableStyled, shellWord } from "../../src/core/util/text.js";

it("cuts text without breaking a character", () => {
  expect(cutText("abc", 3)).toBe("abc");
  expect(cutText("abcd", 3)).toBe("abc");
  expect(cutText("a🦅b", 2)).toBe("a");
  expect(cutText("a🦅b", 3)).toBe("a🦅");
});

it("takes the marks of direction out of text for a terminal, and leaves writing that runs to the left", () => {
  expect(printable("\u202egnp.exe\u202c \u2066a\u2069\u200f\u061c")).toBe("gnp.exe a");
  expect(printable("שלום")).toBe("שלום");
});

it("takes the control characters out of text for a terminal", () => {
  expect(printable("a\u001b[31m\r\u0007\u009bb\n\tc")).toBe("a[31mb\n\tc");
});

const hostile = "\u001b]0;title\u0007 \u001b[8mhidden \u001b[2J\u009b31m \u001bPq\u001b\\ \u202eexe \u001b[38;5;0m";

it("leaves hone's own styles in text for a terminal, and nothing else that a terminal obeys", () => {
  vi.stubEnv("NO_COLOR", undefined);
  onTestFinished(() => void vi.unstubAllEnvs());
  const paint = painter(true);
  const styles = ["bold", "dim", "inverse", "red", "green", "yellow", "cyan", "magenta"] as const;
  const styled = styles.map((style) => paint(style, "x")).join("");
  expect(styled).toContain("\u001b[1mx\u001b[22m");
  expect(printableStyled(styled)).toBe(styled);
  expect(printableStyled(paint(["bold", "red"], hostile))).toBe(paint(["bold", "red"], printable(hostile)));
});

it("styles nothing for a stream that is no terminal, nor where NO_COLOR is set", () => {
  onTestFinished(() => void vi.unstubAllEnvs());
  vi.stubEnv("NO_COLOR", undefined);
  // Such a stream has no `isTTY` at all.
  expect([undefined, false].map((isTTY) => painter(isTTY)("bold", "x"))).toEqual(["x", "x"]);
  vi.stubEnv("NO_COLOR", "1");
  expect(painter(true)("bold", "x")).toBe("x");
});

it("writes what a terminal obeys as escapes in JSON, which stays the same", () => {
  const json = printableJson(JSON.stringify({ [hostile]: [hostile, "\u007f שלום\n"] }));
  expect(json).not.toMatch(/[^\P{Cc}]|\p{Bidi_Control}/u);
  expect(JSON.parse(json)).toEqual({ [hostile]: [hostile, "\u007f שלום\n"] });
});

it("quotes a word of a command line that a shell would take apart", () => {
  const words = ["a/b=1,2", "my runs/0000", "it's", "", "$HOME", "größe"];
  for (const text of words) {
    const { stdout } = spawnSync("sh", ["-c", `printf %s ${shellWord(text)}`], { encoding: "utf8" });
    expect(stdout).toBe(text);
  }
  expect(shellWord("a/b=1,2")).toBe("a/b=1,2");
});
