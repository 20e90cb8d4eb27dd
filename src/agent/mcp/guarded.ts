/**
 * Runs a program that ends with hone, even if hone is killed or the program hangs.
 *
 * The program leads its own process group. A guardian, a shell in the same group, waits for the end of a pipe held by
 * hone, which closes when hone closes it or is killed. The program's stdin is closed by then, which is MCP's request to
 * end; after a grace period the group is killed, with all processes started by the program. Processes that have left
 * the group (browsers do) carry a mark in their environment and are found by it on Linux.
 */
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import { accessSync, constants, existsSync, statSync } from "node:fs";
import type { Socket } from "node:net";
import { delimiter, join, resolve } from "node:path";
import type { Readable, Writable } from "node:stream";

/** Seconds until SIGTERM, and from SIGTERM to SIGKILL. */
const GRACE = 2;
const TERM_GRACE = 0.5;

/** The guardian does not hold the program's pipes, nor the program the guardian's. */
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

interface Exit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  /** Why it could not be started. */
  readonly error?: Error;
}

export type Guarded = ReturnType<typeof startGuarded>;

/** The executable of a command; undefined when there is none. */
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

/** Why {@link programOf} finds none. */
export function whyNoProgram(command: string, cwd: string): string {
  if (command.includes("/") && existsSync(resolve(cwd, command))) return `${command} is no file that may be executed`;
  return `there is no program ${command}${/\s/.test(command) ? "; its arguments stand in a list of their own" : ""}`;
}

export function startGuarded(
  program: string,
  args: readonly string[],
  { cwd, env }: { readonly cwd: string; readonly env: NodeJS.ProcessEnv },
) {
  const child = spawn("/bin/sh", ["-c", GUARDIAN, "sh", randomUUID(), program, ...args], {
    cwd,
    env,
    // Ctrl-C on the terminal reaches only hone, which then ends the program.
    detached: true,
    stdio: ["pipe", "pipe", "pipe", "pipe"],
  });
  const [stdin, stdout, stderr] = [child.stdin as Writable, child.stdout as Readable, child.stderr as Readable];
  const lifeline = child.stdio[3] as Socket;
  // Errors of the pipes are ignored, since a program that has just ended is reported by its exit.
  for (const stream of [stdin, stdout, stderr, lifeline]) stream.on("error", () => undefined);
  // Only the guardian holds the other end, so it closes when the group is dead.
  const gone = new Promise<void>((done) => lifeline.once("close", () => done()));
  lifeline.resume();
  const exited = new Promise<Exit>((done) => {
    child.once("exit", (code, signal) => {
      // Processes started by the program must not outlive it.
      lifeline.end();
      done({ code, signal });
    });
    child.once("error", (error) => {
      lifeline.destroy();
      done({ code: null, signal: null, error });
    });
  });
  return {
    process: child,
    stdin,
    stdout,
    stderr,
    /** Resolves when the program has ended, or could not be started. */
    exited,
    /** Asks the program to end, kills it after a while, and resolves when no process of it is left. */
    end: async () => {
      stdin.end();
      lifeline.end();
      await gone;
    },
  };
}
