/** What one step plays and learns from: numbers of tokens, from the expected lengths of a rollout. */

export interface Workload {
  readonly groups: number;
  /** Rollouts of each. */
  readonly groupSize: number;
  /** Tokens of the prompt, which a group shares: instructions, tools, question. */
  readonly prompt: number;
  /** Assistant turns of a rollout. */
  readonly turns: number;
  /** Tokens that the model samples in a turn. */
  readonly turnTokens: number;
  /** Tokens of what it reads between two turns: tools' results. */
  readonly resultTokens: number;
  /** Seconds in which a step waits for a judge alone. */
  readonly judgeSeconds: number;
}

export interface StepTokens {
  readonly rollouts: number;
  /** Tokens of a whole rollout. */
  readonly length: number;
  /** Of it, those after the prompt. */
  readonly own: number;
  /** Tokens that all rollouts sample. */
  readonly sampled: number;
  /** Tokens that are read: a group's prompt once, results by each rollout. */
  readonly read: number;
  /** Positions of an update: a group's prompt once, everything else by each rollout. */
  readonly positions: number;
  /** Tokens that a position after the prompt attends to on average. */
  readonly attended: number;
}

export function stepTokens({ groups, groupSize, prompt, turns, turnTokens, resultTokens }: Workload): StepTokens {
  const rollouts = groups * groupSize;
  const results = Math.max(0, turns - 1) * resultTokens;
  const own = turns * turnTokens + results;
  return {
    rollouts,
    length: prompt + own,
    own,
    sampled: rollouts * turns * turnTokens,
    read: groups * prompt + rollouts * results,
    positions: groups * prompt + rollouts * own,
    attended: prompt + own / 2,
  };
}
