/** Commands and options that hone has no more. Whoever names one is told in one line what to do instead. */
import { hone, UsageError } from "../util/index.js";

/** What to do instead, by command: "plan", "models pull". */
export const removedCommands: Readonly<Record<string, string>> = {
  plan: `docs/scale.md has the arithmetic of a step, \`${hone("models show")} MODEL\` says whether its training fits this machine, \`${hone("doctor")}\` what the machine has`,
};

const OF_PLAN = "it was an option of `plan`, whose arithmetic is in docs/scale.md";

/** What to do instead, by option as a config file names it: `learnerShards` stands for the flag and the variable too. */
export const removedFlags: Readonly<Record<string, string>> = {
  cards: OF_PLAN,
  promptTokens: OF_PLAN,
  turns: OF_PLAN,
  turnTokens: OF_PLAN,
  resultTokens: OF_PLAN,
  judgeSeconds: OF_PLAN,
  assume: OF_PLAN,
  learnerShards:
    "each process of --learner-launch has the whole model: where that does not fit, take quantised weights (docs/models.md) or --gradient-checkpointing",
};

/** Refuses a removed command, whatever follows it and also where its help is asked for. */
export function refuseRemovedCommand(args: readonly string[]): void {
  const words = args.filter((arg) => !arg.startsWith("-")).join(" ");
  for (const [name, instead] of Object.entries(removedCommands))
    if (`${words} `.startsWith(`${name} `)) throw new UsageError(`\`${hone(name)}\` has been removed; ${instead}`);
}

/**
 * The refusal of a removed option; undefined for another name.
 *
 * @param shown as the user wrote it, and where
 */
export function removedOption(name: string, shown: string): UsageError | undefined {
  if (!Object.hasOwn(removedFlags, name)) return undefined;
  return new UsageError(`${shown} has been removed; ${removedFlags[name]}`);
}
