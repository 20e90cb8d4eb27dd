/**
 * The rewards that `--reward` can name. To add one, write a file beside this one (see kind.ts) and an entry here, which says what
 * is known before one is chosen.
 */

import { UsageError } from "../../core/util/errors.js";
import { nearest } from "../../core/util/nearest.js";
import { checkable, PROGRAM, programFacts, type RewardCode, type RewardFacts, type RewardKind } from "./kind.js";

interface RewardEntry extends RewardFacts {
  /** Its code, which is loaded when it is chosen. */
  load(): Promise<RewardCode>;
}

const judged = { judged: true, accuracy: "task", spreadFloor: 0, comparesByWording: false } as const;

const offered: Readonly<Record<string, RewardEntry>> = {
  task: {
    ...checkable,
    about: "the task's own reward",
    load: async () => (await import("./task.js")).taskCode,
  },
  success: {
    ...checkable,
    about: "1 where the task says that the rollout succeeded, else 0: no partial credit",
    load: async () => (await import("./success.js")).successCode,
  },
  shaped: {
    ...judged,
    accuracy: "judge",
    about: "the task's graded reward, for which a judge says whether the answer is right (ART-E's, for email)",
    load: async () => (await import("./shaped.js")).shapedCode,
  },
  ruler: {
    ...judged,
    about: "a judge's scores of the group's rollouts (RULER), from 0 to 1",
    // Below it scores differ by chance.
    spreadFloor: 0.05,
    load: async () => (await import("./ruler.js")).rulerCode,
  },
  composed: {
    ...judged,
    about: "the task's composed reward, with a judge's scores (RULER) as one of its parts",
    load: async () => (await import("./composed.js")).composedCode,
  },
};

const rewards: Readonly<Record<string, RewardEntry>> = {
  ...offered,
  [PROGRAM]: { ...programFacts, load: async () => (await import("./program.js")).unknownProgram },
};

export const rewardNames: readonly string[] = Object.keys(offered);

/**
 * Also of the one that no option offers: a run may have recorded it.
 *
 * @throws UsageError when there is no such reward
 */
export function rewardFacts(name: string): RewardEntry {
  const found = Object.hasOwn(rewards, name) ? rewards[name] : undefined;
  if (found) return found;
  const close = nearest(name, rewardNames);
  throw new UsageError(
    `--reward ${name}: there is no such reward; ${close ? `did you mean ${close}?` : `give one of ${rewardNames.join(", ")}`}`,
  );
}

/** As {@link rewardFacts}, with its code. */
export async function rewardNamed(name: string): Promise<RewardKind> {
  const { load, ...facts } = rewardFacts(name);
  return { name, ...facts, ...(await load()) };
}

/** For help. */
export function rewardsText(): string {
  const width = Math.max(...rewardNames.map((name) => name.length)) + 2;
  return [
    "Rewards (--reward):",
    ...Object.entries(offered).map(([name, { about }]) => `  ${name.padEnd(width)}${about}`),
  ].join("\n");
}

/** Whether another reward than the task's own trains. */
export function pushesOther(settings: { readonly reward?: unknown; readonly control?: unknown }): boolean {
  const { reward = "task", control = "none" } = settings;
  return reward !== "task" || control !== "none";
}
