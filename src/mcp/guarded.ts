/**
 * A program that ends with hone, whatever becomes of hone and whatever the program is doing.
 *
 * It leads a process group of its own. A guardian, a shell of the same group, waits for the end of a pipe that hone
 * holds: hone closes it, or the kernel does when hone is killed. The program has also lost its stdin by then, which is
 * how MCP asks a server to end; after a while without that, the group is killed, and with it what the program started.
 * What has left the group (browsers do) still carries the mark in its environment and is found by that, on Linux.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { accessSync, constants, statSync } from "node:fs";
import type { Socket } from "node:net";
import { delimiter, join, resolve } from "node:path";
import type { Readable, Writable } from "node:stream";

/** Seconds that a program has for an end in its own way, and after that for one on SIGTERM. */
const GRACE = 2;
const TERM_GRACE = 0.5;

/** The guardian holds none of the program's pipes; the program holds not the guardian's. */
const GUARDIAN = `
mark=$1; shift
(
  trap '' HUP INT TERM
  exec <&3 >/dev/null 2>&1
  while read -r _; do :; done
  left=${GRACE * 10}
  while kill -0 $$ && [ $left -gt 0 ]; do sleep 0.1; left=$((left - 1)); done
  others() { grep -lsF "HONE_MCP_SERVER=$mark" /proc/[0-9]*/environ | tr -dc '0-9\\n'; }
  pids=$(others)
  kill -s TERM -- -$$
  [ -n "$pids" ] && kill -s TERM $pids
  if [ -n "$pids" ] || [ ! -d /proc/1 ]; then sleep ${TERM_GRACE}; pids=$(others); fi
  [ -n "$pids" ] && kill -s KILL $pids
  kill -s KILL -- -$$
) &
exec env HONE_MCP_SERVER="$mark" "$@" 3<&-
`;

export interface Guarded {
  readonly process: ChildProcess;
  readonly stdin: Writable;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Kept when the program has ended, or could not be started. */
  readonly exited: Promise<{ code: number | null; signal: NodeJS.Signals | null }>;
  /** Asks the program to end, ends it after a while, and is kept when nothing of it is left. */
  end(): Promise<void>;
}

/** The program that a command names. Undefined when there is none. */
export function programOf(command: string, cwd: string, path: string | undefined): string | undefined {
  const isProgram = (file: string) => {
    try {
      accessSync(file, constants.X_OK);
      return statSync(file).isFile();
    } catch {
      return false;
    }
  };
  const places = command.includes("/") ? [""] : (path ?? "").split(delimiter);
  return places.map((place) => resolve(cwd, join(place, command))).find(isProgram);
}

export function startGuarded(
  program: string,
  args: readonly string[],
  { cwd, env }: { readonly cwd: string; readonly env: Readonly<Record<string, string>> },
): Guarded {
  const child = spawn("/bin/sh", ["-c", GUARDIAN, "sh", randomUUID(), program, ...args], {
    cwd,
    env,
    // The terminal's Ctrl-C goes to hone alone, which ends the program in its turn.
    detached: true,
    stdio: ["pipe", "pipe", "pipe", "pipe"],
  });
  const [stdin, stdout, stderr] = [child.stdin as Writable, child.stdout as Readable, child.stderr as Readable];
  const lifeline = child.stdio[3] as Socket;
  // A program that has just ended is told of by its exit.
  for (const stream of [stdin, stdout, stderr, lifeline]) stream.on("error", () => undefined);
  // Only the guardian holds the other side: it closes when the group is dead.
  const gone = new Promise<void>((done) => lifeline.once("close", () => done()));
  lifeline.resume();
  const exited = new Promise<{ code: number | null; signal: NodeJS.Signals | null }>((done) => {
    child.once("exit", (code, signal) => {
      // What it started must not outlive it.
      lifeline.end();
      done({ code, signal });
    });
    child.once("error", () => {
      lifeline.destroy();
      done({ code: null, signal: null });
    });
  });
  return {
    process: child,
    stdin,
    stdout,
    stderr,
    exited,
    end: async () => {
      stdin.end();
      lifeline.end();
      await gone;
    },
  };
}
