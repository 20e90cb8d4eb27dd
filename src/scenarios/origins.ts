/** Errors of a task's own code say in which line they were thrown. */

import type { AnyTask } from "../core/task/task.js";
import { withOrigin } from "./origin.js";

/** @param file of the task */
export function withOrigins(task: AnyTask, file: string): AnyTask {
  const traced = (error: unknown): never => {
    // A ToolError's message is written for the model. By its name: the file has the built package's.
    throw (error as Partial<Error> | null)?.name === "ToolError" ? error : withOrigin(error, file);
  };
  // Keeps what is attached to the function, such as a composed reward's weight.
  const tracing = <F extends (...args: never[]) => unknown>(work: F): F =>
    Object.assign(
      function (this: unknown, ...args: Parameters<F>) {
        try {
          const result = work.apply(this, args);
          return result instanceof Promise ? result.catch(traced) : result;
        } catch (error) {
          return traced(error);
        }
      } as F,
      work,
    );
  return {
    ...task,
    scenarios: tracing(task.scenarios),
    open: tracing(task.open),
    prompt: tracing(task.prompt),
    reward: tracing(task.reward),
    tools: task.tools.map((tool) => ({ ...tool, execute: tracing(tool.execute) })),
    ...(task.reply ? { reply: tracing(task.reply) } : {}),
  };
}
