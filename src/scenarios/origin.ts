/** Errors of a task's own code say in which line they were thrown. */
import { existsSync, realpathSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { types } from "node:util";
import type { AnyTask } from "../core/task/task.js";
import { HoneError } from "../core/util/errors.js";
import { packageRoot } from "../core/util/paths.js";

/** A frame of a stack, "at f (FILE:LINE:COLUMN)", and the place that jiti's parser adds to its message, " FILE:LINE:COLUMN". */
const PLACE = /^\s+(?:at )?(?:async )?(?:.*\()?(\S.*?):(\d+):\d+\)?$/gm;

const isBelow = (file: string, folder: string) => file.startsWith(folder + sep);

function placeIn(stack: string, file: string): string | undefined {
  const folders = [file, existsSync(file) ? realpathSync(file) : file].map((one) => dirname(one));
  for (const [, at = "", line] of stack.matchAll(PLACE)) {
    const path = at.startsWith("file:") ? fileURLToPath(at) : at;
    const folder = folders.find((one) => isBelow(path, one));
    if (folder === undefined || path.includes(`${sep}node_modules${sep}`)) continue;
    // A task file in hone's own checkout has hone's code below its folder.
    if (["src", "dist"].some((own) => isBelow(path, join(packageRoot, own)))) continue;
    return `${relative(folder, path)}:${line}`;
  }
  return undefined;
}

/**
 * "sums.ts:12": the innermost line of a user's code that an error, or its cause, came from; undefined where none is known. A
 * HoneError's own stack says nothing: its message is complete.
 *
 * @param file the user's file; others of its folder count, but for packages
 */
function originOf(error: unknown, file: string, depth = 0): string | undefined {
  // Causes may be circular.
  if (!types.isNativeError(error) || depth > 8) return undefined;
  const cause = originOf(error.cause, file, depth + 1);
  if (cause !== undefined || error instanceof HoneError) return cause;
  return placeIn(`${error.stack ?? ""}`, file);
}

/** Adds {@link originOf} to the first line of the error's message, once. */
export function withOrigin(error: unknown, file: string): unknown {
  const place = originOf(error, file);
  if (place === undefined) return error;
  const native = error as Error;
  const [first = "", ...rest] = native.message.split("\n");
  if (first.endsWith(`(${place})`)) return error;
  const value = [`${first.trimEnd() || `${native.name} without a message`} (${place})`, ...rest].join("\n");
  // A DOMException's message can be defined, not assigned.
  Object.defineProperty(native, "message", { value, configurable: true, writable: true });
  return native;
}

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
