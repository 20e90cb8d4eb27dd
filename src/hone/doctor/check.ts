/** One line of `hone doctor`. */
export interface Check {
  /** Name of the check: "node", "driver" ... Unique in a report. */
  readonly name: string;
  /** ok: right. note: right, but worth knowing. wrong: must be fixed. none: not checked, with the reason. */
  readonly state: "ok" | "note" | "wrong" | "none";
  /** The finding, or why nothing was checked. */
  readonly found: string;
  /** How to fix it; present for every "wrong". */
  readonly mend?: string | undefined;
  /** The same as data, for `--json`. */
  readonly facts?: Readonly<Record<string, unknown>> | undefined;
}

type Told = (name: string, found: string, facts?: Check["facts"]) => Check;
type Mended = (name: string, found: string, mend: string, facts?: Check["facts"]) => Check;

export const ok: Told = (name, found, facts) => ({ name, state: "ok", found, facts });
export const none: Told = (name, found, facts) => ({ name, state: "none", found, facts });
export const note: Mended = (name, found, mend, facts) => ({ name, state: "note", found, mend, facts });
export const wrong: Mended = (name, found, mend, facts) => ({ name, state: "wrong", found, mend, facts });

const marks: Readonly<Record<Check["state"], string>> = { ok: "ok", note: "note", wrong: "WRONG", none: "-" };

/** Length of the longest name. */
const NAME_WIDTH = 15;

export function checkText({ name, state, found, mend }: Check): string {
  const indent = " ".repeat(marks.wrong.length + NAME_WIDTH + 2);
  const line = `${marks[state].padEnd(marks.wrong.length)} ${name.padEnd(NAME_WIDTH)} ${found}`;
  return mend === undefined ? line : `${line}\n${indent}→ ${mend}`;
}
