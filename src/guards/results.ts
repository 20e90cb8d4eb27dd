/** What the model was told of its calls, beside the record of what its tools returned. */
import type { Trajectory } from "../core/rollout/trajectory.js";
import { HoneError } from "../core/util/errors.js";
import { toJson } from "../core/util/json.js";
import { conversationOf, difference, isOwn } from "./given.js";

function checkRollout({ id, messages, turns, calls }: Trajectory): void {
  const [, ...after] = conversationOf(messages, turns);
  // Where the last turn ended the rollout, none of its calls was answered.
  const answers = after.flat().filter(({ role }) => role === "tool");
  for (const [i, { content }] of answers.entries()) {
    const call = calls[i];
    const result = call?.result ?? null;
    // A string that was no string to the tool, as a Date is none, is given as JSON.
    if (content === result || content === toJson(result)) continue;
    const wanted = typeof result === "string" ? result : toJson(result);
    throw new HoneError(
      `in turn ${call?.turn} of the rollout ${id} the model was given another text than its call of ${call?.name} returned: ${difference(content, wanted)}; the step was not taken. The same command plays it again`,
    );
  }
}

/** @throws HoneError where a rollout that hone itself played was not told what its calls returned */
export function checkResults(group: readonly Trajectory[]): void {
  for (const one of group.filter(isOwn)) checkRollout(one);
}
