/** Output about rollouts: the live line, the summary, and the numbers behind both. */
import { brokenOff, type DeadlineCause } from "../../core/rollout/deadline.js";
import type { AgentCounts, HasCalls } from "../../core/rollout/trajectory.js";
import { byKind, callErrors, count, meansOf, summed } from "../../core/run/evaluation.js";
import { clock } from "../../core/util/text.js";
import { bar, compact } from "./progress-line.js";

/** Fields of a trajectory that the summary uses. */
export interface Counted extends HasCalls<{ readonly outcome: string }> {
  readonly scenario: { readonly kind?: string };
  readonly end: string;
  readonly deadlineCause?: DeadlineCause | undefined;
  readonly reason?: string | undefined;
  readonly reward: {
    readonly reward: number;
    readonly success: boolean;
    readonly parts?: Readonly<Record<string, number>>;
  };
  readonly completionTokens: number;
  readonly promptTokens: number;
  readonly servers?: Readonly<Partial<Record<string, number>>>;
  readonly agent?: AgentCounts;
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

type Counts = Record<string, number>;

/** Sums by name, in the order of names. */
const sumOf = (all: readonly object[]): Counts => Object.fromEntries(Object.entries(summed(all)).sort());

const orNull = (value: number) => (Number.isFinite(value) ? value : null);

/** Running figures over rollouts as they finish. Accuracy is over all of them, not over those that answered. */
export class RolloutTally {
  readonly reward = new Mean();
  readonly success = new Mean();
  readonly completionTokens = new Mean();
  /** What is counted of each, without its messages and tokens. */
  readonly #rollouts: (Pick<Counted, "scenario" | "reward" | "end"> & {
    readonly servers: object;
    readonly agent: object;
    readonly errors: Counts;
    readonly cause: string | null;
  })[] = [];
  #reason: string | null = null;
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

  add(rollout: Counted): void {
    this.reward.add(rollout.reward.reward);
    this.success.add(rollout.reward.success ? 1 : 0);
    this.completionTokens.add(rollout.completionTokens);
    this.#tokens += rollout.completionTokens;
    const { scenario, reward, end, servers = {}, agent = {} } = rollout;
    const cause = brokenOff(rollout);
    this.#rollouts.push({ scenario, reward, end, servers, agent, errors: callErrors([rollout]), cause });
    if (cause !== null) this.#reason ??= rollout.reason ?? null;
  }

  get done(): number {
    return this.reward.n;
  }

  /** Completion tokens per second since the tally was created. */
  get tokensPerSecond(): number {
    return this.#tokens / this.seconds;
  }

  get seconds(): number {
    return (performance.now() - this.#started) / 1000;
  }

  /** The live line. */
  line(total: number): string {
    const left = this.done > 0 ? clock((this.seconds / this.done) * (total - this.done)) : "–";
    const rewards = this.#judged
      ? `judged ${this.#judgedRollouts}/${total}  reward ${this.#verdicts}`
      : `reward ${this.reward}`;
    const means = this.done > 0 ? `  ${rewards}  tokens ${this.completionTokens}` : "";
    const rate = this.#tokens > 0 ? `  ${compact(this.tokensPerSecond)} tok/s` : "";
    return `${bar(this.done / total, 20)} ${this.done}/${total}  ${clock(this.seconds)} < ${left}${means}${rate}`;
  }

  summary() {
    const ends = count(this.#rollouts.map(({ end }) => end));
    return {
      rollouts: this.done,
      answered: ends.answered ?? 0,
      /** Share of all rollouts that solved their scenario; null when there were none. */
      success: orNull(this.success.value),
      reward: orNull(this.reward.value),
      /** Mean of each part of the reward, and its number of rollouts. */
      parts: meansOf(this.#rollouts.map(({ reward }) => reward.parts ?? {})),
      completion_tokens: orNull(this.completionTokens.value),
      /** Success by kind of scenario, where scenarios have kinds. */
      kinds: byKind(this.#rollouts),
      ends,
      /** Rollouts that ended by no fault of the player, by cause, and the reason of the first of them. */
      broken_off: count(this.#rollouts.flatMap(({ cause }) => cause ?? [])),
      broken_off_reason: this.#reason,
      tool_errors: sumOf(this.#rollouts.map(({ errors }) => errors)),
      /** What happened with MCP servers: see the events of a trajectory. */
      servers: sumOf(this.#rollouts.map(({ servers }) => servers)),
      /** Counts of rollouts that the task's own code played. */
      agent: sumOf(this.#rollouts.map(({ agent }) => agent)),
    };
  }
}
