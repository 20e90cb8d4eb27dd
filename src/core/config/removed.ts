/** Commands and options that hone has no more. Whoever names one is told in one line what to do instead. */

import { UsageError } from "../util/errors.js";
import { hone } from "../util/program.js";

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
  learnerLaunchAddress: "the processes of --learner-launch are all on this machine",
  learnerShards:
    "each process of --learner-launch has the whole model: where that does not fit, take quantised weights (docs/models.md) or --gradient-checkpointing",
  adamBeta1: "AdamW's numbers go by the model's size; tune --learning-rate and --max-grad-norm",
  adamBeta2: "AdamW's numbers go by the model's size; tune --learning-rate and --max-grad-norm",
  adamBits: "Adam's moments have 32 bits: of an adapter they are small",
  difficultyRollouts: "--difficulty plays each scenario --group-size times",
  initAdapter: "--fork takes an adapter in PEFT's format too",
  judgeRpm: "a server's own limit is waited for; lower --judge-concurrency",
  judgeTpm: "a server's own limit is waited for; lower --judge-concurrency",
  lanes: "hone chooses by the model and the device, and takes one where memory is short",
  mcpResultChars: "give `resultChars` in the task's `mcp`",
  mcpScope: "give `scope` in the task's `mcp`",
  mcpStartTimeout: "a server has two minutes to answer after its start",
  quiet: "send the output to /dev/null; errors go to stderr",
  sampling: "tokens are drawn on the device on CUDA where its trial passes, else on the host",
  ubatch: "a pass has 512 tokens at most",
  weightDecay: "AdamW's numbers go by the model's size; tune --learning-rate and --max-grad-norm",
  workers: "rollouts have a thread for each core but one, four at most",
};

const WHOLE = "training samples from the model's whole distribution, because the learner must know it; leave it out";
const RANK = "give --set rank=bm25 or --set rank=date, the task's own option";

/** The same, by command, for options that other commands still take. */
const removedFrom: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  train: {
    topK: WHOLE,
    topP: WHOLE,
    minP: WHOLE,
    rank: RANK,
    debugJudge: `\`${hone("judge")} --debug-judge\` shows the judge's answers on rollouts of \`${hone("rollouts")} --jsonl\``,
    judgeCache: "a run asks its judge nothing twice; take another --judge-model or --seed",
  },
  ...Object.fromEntries(["check", "rollout", "chat", "play"].map((command) => [command, { rank: RANK }])),
  eval: { rank: RANK, judgeCache: "verdicts on the same answers are the same; take another --judge-model" },
  "scenarios generate": { judgeCache: "take another --judge-model or --seed for other questions" },
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
 * @param command that it was given to, where it may still be one of others
 */
export function removedOption(name: string, shown: string, command?: string): UsageError | undefined {
  const instead = new Map(Object.entries({ ...removedFlags, ...removedFrom[command ?? ""] })).get(name);
  if (instead === undefined) return undefined;
  return new UsageError(`${shown} has been removed; ${instead}`);
}
