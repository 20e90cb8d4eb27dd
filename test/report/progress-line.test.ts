/** Lines of progress, on a terminal and without one. */
import { describe, expect, it } from "vitest";
import { learnerProgress, ProgressLine } from "../../src/insight/report/progress-line.js";

const hostile = "a\u001b[2J\u009b31m\u202eb\u0007";

/** What a stream gets. */
function written(isTTY: boolean, use: (line: ProgressLine) => void): string {
  const parts: string[] = [];
  const stream = { isTTY, columns: 40, write: (part: string) => parts.push(part) };
  use(new ProgressLine(stream as unknown as NodeJS.WriteStream));
  return parts.join("");
}

describe("text from outside", () => {
  it("gives no orders to a terminal", () => {
    expect(written(true, (line) => line.log(hostile))).toBe("a[2J31mb\n");
    expect(written(true, (line) => line.show(`\u001b[1m${hostile}\u001b[22m`))).toBe("\u001b[1ma[2J31mb\u001b[22m\n");
    // The line is begun anew, and that is all.
    expect(written(true, (line) => line.update(() => hostile))).toBe("\r\u001b[2Ka[2J31mb");
  });
});

it("a progress line is no wider than the terminal, and is erased before a line that stays", () => {
  const text = written(true, (line) => {
    line.update(() => `${"x".repeat(100)}\nsecond`);
    line.log("done");
  });
  const erased = "\r\u001b[2K\u001b[1A\u001b[2K";
  expect(text).toBe(`\r\u001b[2K${"x".repeat(39)}\nsecond${erased}done\n`);
});

it("says how much of the learner's work is done where that can be told", () => {
  expect(learnerProgress({ phase: "update", done: 1, total: 4 })).toBe("update █████░░░░░░░░░░░░░░░ 1/4");
  expect(learnerProgress({ phase: "reading the model file", done: 0, total: 0 })).toBe("reading the model file");
});
