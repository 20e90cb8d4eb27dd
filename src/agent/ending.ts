/** How a rollout ended whose code returned: by what the model did in the turn that began last. */

import type { RolloutEnd } from "../core/task/task.js";
import { refusalByRequest } from "./request-refusals.js";
import type { PlayedTurn, RolloutModel } from "./rollout-model.js";

export interface Ending {
  readonly end: RolloutEnd;
  readonly reason?: string;
  /** Arguments of the call that is the answer; missing where a text is. */
  readonly answer?: Record<string, unknown>;
}

/** Begins the reason of a `bad_call` of code that returned: it saw no call, but a text. */
export const MALFORMED = "its last call was malformed";

/** @param finalTools of the task: a call of one is the answer */
export function endingOf(
  { limit, turns }: Pick<RolloutModel, "limit"> & { readonly turns: readonly PlayedTurn[] },
  finalTools: readonly string[] = [],
): Ending {
  const last = turns.reduce<PlayedTurn | undefined>((a, b) => (a && a.number > b.number ? a : b), undefined);
  // Code may go on from a limit, with a shorter history for example; then the limit has ended nothing.
  if (limit && !(last && last.number >= limit.turn)) return { end: limit.end };
  if (!last) return { end: "no_tool_call" };
  const { answer, asked, cut, demanded } = last;
  if (cut) return { end: answer.stop === "context" ? "context_limit" : "token_limit" };
  const { calls, said } = answer.read;
  if (calls.length === 0) return { end: said.trim() === "" ? "no_tool_call" : "answered" };
  const read = calls.flatMap((written) => (written.kind === "call" ? [written.call] : []));
  const final = read.find(
    (call) => [...finalTools, demanded].includes(call.name) && refusalByRequest(call, asked.tools) === undefined,
  );
  if (final) return { end: "answered", answer: final.arguments };
  const [first] = calls;
  if (read.length === 0 && first?.kind === "malformed")
    return { end: "bad_call", reason: `${MALFORMED}: ${first.reason}` };
  const names = [...new Set(read.map(({ name }) => name.slice(0, 64)))].join(", ");
  return {
    end: "open_call",
    reason: `the agent ended behind a call of ${names}, whose result the model was not given`,
  };
}
