import { expect, it } from "vitest";
import { cutText, printable } from "../../src/util/text.js";

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
