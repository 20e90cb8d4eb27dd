/** Which guard of hone's a message is of. */

const guards: readonly (readonly [RegExp, string])[] = [
  [/was not sampled, and has the log-probability/, "a batch's tokens"],
  [/was given other tokens than its messages/, "prompts by a second path"],
  [/was given another text than Jinja2/, "prompts by another renderer"],
  [/would compute with another adapter/, "the adapter in use"],
  [/given another text than its call of/, "results by the record"],
  [/was played by .* in place of/, "the adapter that was to play"],
  [
    /were computed by --advantages|against --mask-truncated|and is trained with/,
    "rewards and advantages, by the run's options",
  ],
  [/the adapter of step \d+ has --lora/, "the adapter's form, by the run's options"],
  [/was asked otherwise than the task asks/, "prompts by the task"],
  [/the learner computed with an adapter of/, "the adapter's numbers"],
  [
    /engine's log-probabilities (of tokens .* are not|are not those of what)|engine told one log-probability/,
    "log-probabilities by size",
  ],
  [/Adam's moments of a parameter are not/, "Adam by a second path"],
  [/would be a mean over/, "the batch by a second path"],
  [/would train at temperature|would go on from|the adapter of .* is scaled by/, "what was asked, by a second path"],
  [/learner would be asked for/, "what is asked, by the run's options"],
  [/random numbers of their seed/, "tokens by their random numbers"],
  [/the ratio of the policy to the one before/, "tokens of the updates"],
  [/the policy is the base model/, "the adapter in use"],
  [/step \d+ played the scenario/, "scenarios by a second path"],
  [/log-probabilities are rounded/, "log-probabilities by size"],
  [/the store has step .* otherwise/, "what is stored, read again"],
  [/the highest mean reward of a validation is/, "the best state, by a second path"],
  [/the rollout .* is not what was played/, "the engine's own account"],
  [/is not what was played/, "the batch by a second path"],
  [
    /computed by a second path are others|a reward is .*, not a finite number/,
    "rewards and advantages by a second path",
  ],
  [/a small step, computed as updates are/, "a small step computed plainly"],
  [
    /were not added .* times each|made anew between its updates|a step of .* updates has made|do not weigh in the mean/,
    "tokens of the updates",
  ],
  [/from which it was to go on/, "a resume, read again"],
  [/the rows of an update|a row of an update/, "rows by a second path"],
  [/the update would leave|the model has dropout|gradients of an earlier update/, "what an update trains"],
  [/the update of a parameter by Adam/, "Adam by a second path"],
  [/of the checkpoint has|has not the adapter that was trained/, "a checkpoint's files, read back"],
  [/cannot be committed|cannot be published/, "the order of commits"],
  [/inconsistent sequence positions/, "llama.cpp's check of positions"],
  [/tokens are not drawn with the probabilities/, "statistics of draws"],
  [/drew the same tokens/, "a group's draws"],
  [/was drawn with the seed/, "seeds"],
  [/the learning rate of step/, "learning rate by a second path"],
  [/engine and learner disagree/, "distance of engine and learner"],
  [/differ by more than rounding explains/, "distance of engine and learner (told)"],
  [/differ more than in the run's first steps/, "distance of engine and learner (told)"],
  [/still plays the adapter before|does not play the adapter/, "a checkpoint's probe"],
  [/played this step with an adapter older|engine lags behind|the engine played neither/, "policy that played"],
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
