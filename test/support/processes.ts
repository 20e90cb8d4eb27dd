/** Processes that a test has started, as the system lists them. */
import { spawnSync } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";

interface Listed {
  readonly pid: number;
  readonly parent: number;
  readonly words: string;
}

/** All that run; a dead process whose parent has not heard of it yet is left out. */
function running(): Listed[] {
  const { stdout } = spawnSync("ps", ["-A", "-o", "pid=,ppid=,stat=,args="], { encoding: "utf8" });
  return stdout.split("\n").flatMap((line) => {
    const [, pid, parent, state = "Z", words = ""] = /^\s*(\d+)\s+(\d+)\s+(\S+)\s+(.*)$/.exec(line) ?? [];
    return state.startsWith("Z") ? [] : [{ pid: Number(pid), parent: Number(parent), words }];
  });
}

/** Running processes of which this one is an ancestor. */
export function below(pid: number, all = running()): Listed[] {
  return all.filter(({ parent }) => parent === pid).flatMap((one) => [one, ...below(one.pid, all)]);
}

/** The learner's ranks below a process. */
export function ranksBelow(pid: number): number[] {
  const all = below(pid).filter(({ words }) => /^\S+ -m learner$/.test(words));
  // A rank's guardian, its child, has its arguments.
  return all.filter(({ parent }) => !all.some((other) => other.pid === parent)).map((one) => one.pid);
}

/** Whether all of them end. A busy machine may take its time; what stays, stays for longer than this. */
export async function gone(pids: readonly number[]): Promise<boolean> {
  const some = () => running().some(({ pid }) => pids.includes(pid));
  for (const until = Date.now() + 300_000; some() && Date.now() < until; ) await sleep(50);
  return !some();
}
