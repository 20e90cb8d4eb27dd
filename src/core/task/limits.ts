/** Time limits for a task's own code outside of rollouts: its file, `scenarios`, `open`, `close`, and `prompt`. */
import { type Allowed, timed, timedNow } from "../util/watch.js";
import type { AnyTask } from "./task.js";

export const allowed = (what: string, seconds: number): Allowed => ({ what, seconds, remedy: "--task-timeout" });

export function withLimits(task: AnyTask, seconds: number): AnyTask {
  const part = (name: string) => allowed(`${name} of the task ${task.name}`, seconds);
  return {
    ...task,
    scenarios: (given, io) =>
      timed(part("scenarios"), (alive) => {
        const log = (line: string) => {
          alive();
          io?.log?.(line);
        };
        return task.scenarios(given, { ...io, log, alive });
      }),
    open: (given) => timed(part("open"), () => task.open(given)),
    close: (env) => timed(part("close"), () => task.close(env)),
    prompt: (scenario, limits) => timedNow(part("prompt"), () => task.prompt(scenario, limits)),
  };
}
