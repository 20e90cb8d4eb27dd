/**
 * Notices the end of the npm, npx or yarn that started this process. They do not pass every signal on: after SIGTERM to
 * `npx yarn train` the shell that yarn started, and this process, would go on without them.
 *
 * Only these are watched, never a terminal, a shell or a service above them, and only while this process is part of their
 * job. Whoever starts it in a process group or session of its own (a job of an interactive shell, `setsid`), or in the
 * background of a script, has detached it on purpose.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { type ProcessStat, statOf } from "../core/util/processes.js";

const EVERY_MS = 1000;

/** Whether npm, npx or yarn has started a process: they name the script in its environment. */
function isOfScript(pid: number): boolean {
  try {
    return /(^|\0)npm_lifecycle_event=/.test(readFileSync(`/proc/${pid}/environ`, "utf8"));
  } catch {
    return false;
  }
}

function inputOf(pid: number): string | undefined {
  try {
    return readlinkSync(`/proc/${pid}/fd/0`);
  } catch {
    return undefined;
  }
}

/** A shell gives its background no input, where it has some itself. */
const isInBackground = (pid: number, parent: number) => inputOf(pid) === "/dev/null" && inputOf(parent) !== "/dev/null";

/** The processes between this one and the outermost npm, npx or yarn that started it, that included; none where it is detached. */
function wrappers(): ProcessStat[] {
  const found: ProcessStat[] = [];
  let below = statOf(process.pid);
  while (below && isOfScript(below.pid)) {
    const parent = statOf(below.parent);
    if (!parent || parent.group !== below.group || isInBackground(below.pid, parent.pid)) break;
    found.push(parent);
    below = parent;
  }
  return found;
}

const isThere = ({ pid, start }: ProcessStat) => {
  const now = statOf(pid);
  return now?.start === start && !/^[ZX]/.test(now.state);
};

/**
 * @param listener called once, when one of them has ended
 * @returns a function that stops watching
 */
export function onWrapperEnd(listener: () => void): () => void {
  const watched = process.env.npm_lifecycle_event === undefined ? [] : wrappers();
  if (watched.length === 0) return () => undefined;
  const timer = setInterval(() => {
    if (watched.every(isThere)) return;
    clearInterval(timer);
    listener();
  }, EVERY_MS).unref();
  return () => clearInterval(timer);
}
