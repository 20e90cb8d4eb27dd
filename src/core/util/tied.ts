/**
 * Starts programs that do not outlive this process, even when it is killed. A guardian, a small shell beside the program,
 * waits for the end of a pipe that this process holds: the operating system closes it when the process is gone.
 */
import { type ChildProcess, type SpawnOptions, spawn } from "node:child_process";
import type { Writable } from "node:stream";

/** The guardian holds no pipe of the program, nor the program the guardian's. `$$` is the program's process id. */
const GUARDIAN = `
fd=$1; group=$2; shift 2
(
  trap '' HUP INT TERM
  eval "exec <&$fd"
  exec >/dev/null 2>&1 3<&- 4<&-
  read -r word
  [ "$word" = ended ] || kill -s KILL $$
  [ "$group" = no ] || kill -s KILL -- -$$
) &
eval 'exec "$@"' "$fd<&-"
`;

export interface TiedOptions extends Omit<SpawnOptions, "shell" | "detached" | "stdio"> {
  /** As of `spawn`, at most four. */
  readonly stdio: readonly ("ignore" | "pipe" | "ipc")[];
  /**
   * Whether the program leads a process group of its own, which ends with it. Ctrl-C on the terminal does not reach such a
   * group: the caller has to end it.
   */
  readonly ownGroup: boolean;
}

export interface Tied {
  readonly process: ChildProcess;
  /** Ends it at once. */
  kill(): void;
}

/** A program that does not exist ends with code 127, one that cannot be run with 126. */
export function spawnTied(program: string, args: readonly string[], options: TiedOptions): Tied {
  const { stdio, ownGroup, ...rest } = options;
  const fd = stdio.length;
  const child = spawn("/bin/sh", ["-c", GUARDIAN, "sh", String(fd), ownGroup ? "yes" : "no", program, ...args], {
    ...rest,
    detached: ownGroup,
    stdio: [...stdio, "pipe"],
  });
  const lifeline = child.stdio[fd] as Writable;
  // A guardian that was killed does not read.
  lifeline.on("error", () => undefined);
  child.once("error", () => lifeline.destroy());
  child.once("exit", () => lifeline.end("ended\n"));
  return { process: child, kill: () => lifeline.destroy() };
}
