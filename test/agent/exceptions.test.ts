/** The exceptions that ended a program, read from what Python and Node wrote to standard error. */
import { spawnSync } from "node:child_process";
import { describe, expect, test } from "vitest";
import { exceptionsIn, exceptionsOf } from "../../src/agent/exceptions.js";

const namesIn = (stderr: string) => exceptionsIn(stderr).map(({ names }) => names.join(" "));
const python = (code: string) => namesIn(spawnSync("python3", ["-c", code], { encoding: "utf8" }).stderr);
const node = (code: string) =>
  namesIn(spawnSync(process.execPath, ["--input-type=module", "-e", code], { encoding: "utf8" }).stderr);

describe("of Python", () => {
  const caught = (then: string) => `
class Mistake(Exception): pass
try:
    raise Mistake("Max turns")
except Mistake as error:
    ${then}`;

  test.each([
    ["without a message", "class Mistake(Exception): pass\nraise Mistake", ["Mistake"]],
    ["of several lines", "class Mistake(Exception): pass\nraise Mistake('one\\nTwo: three\\n\\n  four')", ["Mistake"]],
    ["with a cause", caught("raise RuntimeError('failed') from error"), ["RuntimeError", "Mistake"]],
    ["while another was handled: not caused by it", caught("{}['defect']"), ["KeyError"]],
    ["that was logged", caught("import logging; logging.exception('failed'); exit(1)"), ["Mistake"]],
    ["that is all that is left in the last line", caught("exit(f'the agent failed: {error!r}')"), ["Mistake"]],
  ])("an exception %s", (_, code, names) => {
    expect(python(code)).toEqual(names);
  });

  test("in a group", () => {
    expect(
      namesIn(`  + Exception Group Traceback (most recent call last):
  |   File "agent.py", line 9, in <module>
  |     return runner.run(main)
  |            ^^^^^^^^^^^^^^^^
  | ExceptionGroup: unhandled errors in a TaskGroup (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "agent.py", line 5, in f
    | agents.exceptions.MaxTurnsExceeded: Max turns (3) exceeded
    +------------------------------------
`),
    ).toEqual(["MaxTurnsExceeded"]);
  });

  test("a name in an ordinary line, or in quotes, is none", () => {
    expect(namesIn("retrying after MaxTurnsExceeded\ndone\n")).toEqual([]);
    expect(python("from os import MaxTurnsExceeded")).toEqual(["ImportError"]);
  });
});

describe("of Node", () => {
  const named = 'class MaxTurnsExceededError extends Error { name = "MaxTurnsExceededError"; state = { turns: 2 } };';

  test.each([
    ["with fields", `${named} throw new MaxTurnsExceededError("Max turns")`, ["MaxTurnsExceededError"]],
    [
      "with a cause of several lines",
      `${named} throw new TypeError("x", { cause: new MaxTurnsExceededError("Max\\n\\nSee also: https://x") })`,
      ["TypeError", "MaxTurnsExceededError"],
    ],
    [
      "that was printed",
      `${named} console.error(new MaxTurnsExceededError("Max")); process.exit(1)`,
      ["MaxTurnsExceededError"],
    ],
    ["with a code", 'import "/no/such.mjs"', ["Error ERR_MODULE_NOT_FOUND"]],
  ])("an error %s", (_, code, names) => {
    expect(node(code)).toEqual(names);
  });
});

test("of an error that was thrown: its classes, its causes, and what its message names", () => {
  class Base extends Error {}
  class Mistake extends Base {
    override readonly name = "AI_MistakeError";
  }
  const message = 'answered 500: {"error": "agents.exceptions.MaxTurnsExceeded: Max turns"}';
  const names = exceptionsOf(new Error(message, { cause: new Mistake("x") })).map((one) => one.names);
  expect(names).toEqual([["Error"], expect.arrayContaining(["MaxTurnsExceeded"]), ["MistakeError", "Mistake", "Base"]]);
  expect(exceptionsOf("a text")).toEqual([]);
  const circular = new Error("x");
  circular.cause = circular;
  expect(exceptionsOf(circular).length).toBeLessThan(20);
});
