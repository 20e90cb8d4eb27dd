/** Which guard of hone's a message is of. */

const guards: readonly (readonly [RegExp, string])[] = [
  [/was not sampled, and has the log-probability/, "a batch's tokens"],
  [/not what was played/, "the batch by a second path"],
  [/drew the same tokens/, "a group's draws"],
  [/engine and learner disagree/, "distance of engine and learner"],
  [/differ by more than rounding explains/, "distance of engine and learner (told)"],
  [/differ more than in the run's first steps/, "distance of engine and learner (told)"],
  [/still plays the adapter before|does not play the adapter/, "a checkpoint's probe"],
  [/played this step with an adapter older|engine lags behind/, "policy that played"],
  [/cannot be reproduced/, "hone replay"],
];

/** "an error" for what stops a run without being a guard's. */
export const guardOf = (words: string): string => guards.find(([pattern]) => pattern.test(words))?.[1] ?? "an error";

/** What a run or replay said that must not be overlooked: its error, else a guard's line in its log. */
export function alarmIn(status: number | null, stderr: string): string | undefined {
  const lines = stderr.split("\n").filter((line) => line.trim() !== "");
  const told = lines.find((line) => guards.some(([pattern]) => pattern.test(line)));
  if (told !== undefined) return told.trim();
  return status === 0 ? undefined : (lines.findLast((line) => /^hone/.test(line)) ?? lines.at(-1) ?? "").trim();
}
