/** Names of the exceptions that ended a task's own code: of a thrown error, or of a program, from its standard error. */

import type { ProgramError } from "../core/task/agent.js";

/** An exception and its message. */
export interface Exception {
  /** Of its class and of the classes that it extends, without modules. */
  readonly names: readonly string[];
  readonly message: string;
}

/** The end of a program's output, in characters, that has its last exception. */
const END = 1 << 16;
/** Errors that are followed to their causes. */
const DEPTH = 10;
/** Lines of a message between an error's name and its stack. */
const MESSAGE = 30;

/** "agents.exceptions.MaxTurnsExceeded", "AI_NoSuchToolError", "_NoSuchToolError": the last part, without the marks. */
const simple = (name: string) => (name.split(".").at(-1) as string).replace(/^_+/, "").replace(/^AI_/, "");

function namesOf(error: Error): string[] {
  const names = [error.name];
  for (let at = Object.getPrototypeOf(error); at && at !== Error.prototype; at = Object.getPrototypeOf(at)) {
    const { name } = (at.constructor ?? {}) as { name?: unknown };
    if (typeof name === "string") names.push(name);
  }
  return [...new Set(names.map((name) => simple(String(name))).filter(Boolean))];
}

/** The thrown error and its causes, outermost first. */
export function exceptionsOf(thrown: unknown): Exception[] {
  const found: Exception[] = [];
  for (let at = thrown, depth = 0; at instanceof Error && depth < DEPTH; at = at.cause, depth++) {
    // Of a program that failed they are known by its output.
    const { exceptions } = at as Partial<ProgramError>;
    if (exceptions) found.push(...exceptions);
    else found.push({ names: namesOf(at), message: at.message }, ...mentioned(at.message));
  }
  return found;
}

/** An exception as Python and JavaScript name it before its message, or as Python represents it: `Name: …`, `Name('…')`. */
const MENTION = /(?<![\w'])((?:[A-Za-z_]\w*\.)*[A-Z]\w*)(?=\(|$|: |:$|")/gm;

/** Exceptions that a text names, such as the answer of a service that failed. */
function mentioned(text: string): Exception[] {
  const names = [...text.slice(0, END).matchAll(MENTION)].map(([, name]) => simple(name as string));
  return names.length === 0 ? [] : [{ names: [...new Set(names)], message: text }];
}

const named = (name: string, message: string, code = ""): Exception => ({
  names: [...new Set([name, code].filter(Boolean).map(simple))],
  message,
});

const PYTHON = "Traceback (most recent call last):";
const PYTHON_ERROR = /^([A-Za-z_][\w.]*)(?:: (.*))?$/;
const CAUSED = "The above exception was the direct cause of the following exception:";
/** `Name: message`, `Name [CODE]: message`; of a cause behind its mark. */
const NODE_ERROR = /^(\s*\[cause\]: |Uncaught )?((?:[A-Za-z_$][\w$]*\.)*[A-Z_$][\w$]*)(?: \[([^\]]+)\])?(?:: (.*)|:)?$/;
const NODE_FRAME = /^\s+at \S/;

/**
 * The last exception in a program's standard error and those that caused it, outermost first. Tracebacks of Python, with
 * causes (`raise … from …`) and groups, and stacks of Node; without one, the exceptions that the last line names.
 */
export function exceptionsIn(stderr: string): Exception[] {
  // Python draws groups with a frame.
  const lines = stderr
    .slice(-END)
    .split("\n")
    .map((line) => line.replace(/^\s+[|+] ?/, "").trimEnd());
  let last: Exception[] = [];
  let direct = false;
  lines.forEach((line, number) => {
    if (line === CAUSED) direct = true;
    else if (line === PYTHON) {
      const error = lines.slice(number + 1).find((one) => one !== "" && !/^\s/.test(one));
      const [, name, message = ""] = PYTHON_ERROR.exec(error ?? "") ?? [];
      if (name !== undefined) last = [named(name, message), ...(direct ? last : [])];
      direct = false;
    } else if (NODE_FRAME.test(line) && !NODE_FRAME.test(lines[number - 1] ?? "")) {
      const before = lines.slice(Math.max(0, number - MESSAGE), number);
      const [, mark, name, code, message = ""] =
        NODE_ERROR.exec(before.findLast((one) => NODE_ERROR.test(one)) ?? "") ?? [];
      if (name !== undefined) last = [...(mark?.includes("cause") ? last : []), named(name, message, code)];
    }
  });
  return last.length > 0 ? last : mentioned(lines.findLast((line) => line !== "") ?? "");
}
