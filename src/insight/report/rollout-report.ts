/** Output about rollouts: the live line, and the numbers of the summary. */
import { brokenOff } from "../../core/rollout/deadline.js";
import type { Trajectory } from "../../core/rollout/trajectory.js";
import { count, evaluate, summed } from "../../core/run/evaluation.js";
import { clock } from "../../core/util/text.js";
import { bar, compact } from "./progress-line.js";

/** Fields of a trajectory that the live line uses. */
export interface Counted {
  readonly reward: { readonly reward: number };
  readonly completionTokens: number;
}

/** A mean with its n: every mean is shown with its n. */
export class Mean {
  #sum = 0;
  #n = 0;

  add(value: number): void {
    this.#sum += value;
    this.#n++;
  }

  get n(): number {
    return this.#n;
  }

  /** NaN without values. */
  get value(): number {
    return this.#sum / this.#n;
  }

  toString(): string {
    return `${compact(this.value)} (n=${this.#n})`;
  }
}

/** Running figures over rollouts as they finish. */
export class RolloutTally {
  readonly #reward = new Mean();
  readonly #completionTokens = new Mean();
  readonly #started = performance.now();
  readonly #judged: boolean;
  /** The judge's scores of the rollouts judged so far. */
  readonly #verdicts = new Mean();
  #judgedRollouts = 0;
  #tokens = 0;

  /** @param judged a judge's scores replace the rewards; they come later than the rollouts */
  constructor(judged = false) {
    this.#judged = judged;
  }

  addVerdict(rollouts: number, { rewards }: { readonly rewards?: readonly number[] }): void {
    this.#judgedRollouts += rollouts;
    for (const reward of rewards ?? []) this.#verdicts.add(reward);
  }

  add({ reward, completionTokens }: Counted): void {
    this.#reward.add(reward.reward);
    this.#completionTokens.add(completionTokens);
    this.#tokens += completionTokens;
  }

  /** Completion tokens per second since the tally was created. */
  get tokensPerSecond(): number {
    return this.#tokens / this.#seconds;
  }

  get #seconds(): number {
    return (performance.now() - this.#started) / 1000;
  }

  /** The live line. */
  line(total: number): string {
    const { n: done } = this.#reward;
    const left = done > 0 ? clock((this.#seconds / done) * (total - done)) : "–";
    const rewards = this.#judged
      ? `judged ${this.#judgedRollouts}/${total}  reward ${this.#verdicts}`
      : `reward ${this.#reward}`;
    const means = done > 0 ? `  ${rewards}  tokens ${this.#completionTokens}` : "";
    const rate = this.#tokens > 0 ? `  ${compact(this.tokensPerSecond)} tok/s` : "";
    return `${bar(done / total, 20)} ${done}/${total}  ${clock(this.#seconds)} < ${left}${means}${rate}`;
  }
}

/** Sums by name, in the order of names. */
const sumOf = (all: readonly object[]) => Object.fromEntries(Object.entries(summed(all)).sort());

/** Figures of rollouts. Accuracy is over all of them, not over those that answered. */
export function rolloutsSummary(rollouts: readonly Trajectory[]) {
  const { n, success, reward, parts, kinds, ends, tool_errors, completion_tokens } = evaluate(rollouts, 0);
  const broken = rollouts.filter((rollout) => brokenOff(rollout) !== null);
  const orNull = (value: number) => (n === 0 ? null : value);
  return {
    rollouts: n,
    answered: ends.answered ?? 0,
    /** Share of all rollouts that solved their scenario; null when there were none. */
    success: orNull(success),
    reward: orNull(reward),
    /** Mean of each part of the reward, and its number of rollouts. */
    parts,
    completion_tokens: orNull(completion_tokens),
    /** Success by kind of scenario, where scenarios have kinds. */
    kinds,
    ends,
    /** Rollouts that ended by no fault of the player, by cause, and the reason of the first of them. */
    broken_off: count(broken.flatMap((rollout) => brokenOff(rollout) ?? [])),
    broken_off_reason: broken[0]?.reason ?? null,
    tool_errors,
    /** What happened with MCP servers: see the events of a trajectory. */
    servers: sumOf(rollouts.map(({ servers = {} }) => servers)),
    /** Counts of rollouts that the task's own code played. */
    agent: sumOf(rollouts.map(({ agent = {} }) => agent)),
  };
}
