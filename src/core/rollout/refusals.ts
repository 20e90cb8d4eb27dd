/** Calls that cannot run, in the words that the model reads: of tools that are not there, or with arguments that do not fit. */

import type { CallOutcome } from "../task/task.js";
import { nearest } from "../util/nearest.js";

export interface Refusal {
  readonly outcome: Extract<CallOutcome, "unknown_tool" | "bad_arguments">;
  readonly error: string;
}

/** @param names of the tools that are there */
export function unknownTool(name: string, names: readonly string[]): Refusal {
  const close = nearest(name, names);
  const hint = close ? `did you mean ${close}?` : `there are ${names.join(", ")}`;
  return { outcome: "unknown_tool", error: `no tool is called ${name.slice(0, 64)}; ${hint}` };
}

/** @param parameters names of what the tool takes */
export function badArguments(name: string, problem: string, parameters: readonly string[]): Refusal {
  const takes = parameters.join(", ") || "no arguments";
  return { outcome: "bad_arguments", error: `${problem.slice(0, 200)}; ${name} takes ${takes}` };
}
