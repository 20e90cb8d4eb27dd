/** Processes of this machine, by their ids. */
import { readFileSync } from "node:fs";
import { codeOf } from "./errors.js";

export interface ProcessStat {
  readonly pid: number;
  /** A letter: Z and X are of those that have ended. */
  readonly state: string;
  readonly parent: number;
  readonly group: string;
  /**
   * Clock ticks (1/100 s) from the machine's start to the process's, which no change of the clock moves. Ids are reused: with
   * another start it is another process.
   */
  readonly start: number;
}

/** Undefined for one that is hidden or has ended, and outside of Linux. */
export function statOf(pid: number | "self"): ProcessStat | undefined {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, "utf8");
    // The name, in parentheses, may contain blanks; fields 3 to 22 of proc_pid_stat(5) follow it.
    const fields = text.slice(text.lastIndexOf(")") + 2).split(" ");
    const [state = "", parent = "", group = ""] = fields;
    return { pid: Number.parseInt(text, 10), state, parent: Number(parent), group, start: Number(fields[19]) };
  } catch {
    return undefined;
  }
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // A living process of another user.
    return codeOf(error) === "EPERM";
  }
}
