/** One line of `hone doctor`. */
export interface Check {
  /** Name of the check: "node", "driver" ... Unique in a report. */
  readonly name: string;
  /** ok: right. note: right, but worth knowing. wrong: must be fixed. none: not checked, with the reason. */
  readonly state: "ok" | "note" | "wrong" | "none";
  /** The finding, or why nothing was checked. */
  readonly found: string;
  /** How to fix it; present for every "wrong". */
  readonly mend?: string;
  /** The same as data, for `--json`. */
  readonly facts?: Readonly<Record<string, unknown>>;
}

export const ok = (name: string, found: string, facts?: Check["facts"]): Check => make("ok", name, found, facts);
export const none = (name: string, found: string, facts?: Check["facts"]): Check => make("none", name, found, facts);
export const note = (name: string, found: string, mend: string, facts?: Check["facts"]): Check => ({
  ...make("note", name, found, facts),
  mend,
});
export const wrong = (name: string, found: string, mend: string, facts?: Check["facts"]): Check => ({
  ...make("wrong", name, found, facts),
  mend,
});

function make(state: Check["state"], name: string, found: string, facts: Check["facts"]): Check {
  return { name, state, found, ...(facts === undefined ? {} : { facts }) };
}

const marks: Readonly<Record<Check["state"], string>> = { ok: "ok", note: "note", wrong: "WRONG", none: "-" };

/** Length of the longest name. */
const NAME_WIDTH = 15;

export function checkText({ name, state, found, mend }: Check): string {
  const indent = " ".repeat(marks.wrong.length + NAME_WIDTH + 2);
  const line = `${marks[state].padEnd(marks.wrong.length)} ${name.padEnd(NAME_WIDTH)} ${found}`;
  return mend === undefined ? line : `${line}\n${indent}→ ${mend}`;
}
