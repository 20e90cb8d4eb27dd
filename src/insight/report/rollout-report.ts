/** Output about rollouts: the live line, the summary, and the numbers behind both. */
import { brokenOff, type DeadlineCause } from "../../core/rollout/deadline.js";
import type { AgentCounts, HasCalls } from "../../core/rollout/trajectory.js";
import { byKind, callErrors, meansOf } from "../../core/run/evaluation.js";
import type { Kinds } from "../../core/run/records.js";
import { bar, clock, compact } from "./progress-line.js";

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

export interface RolloutSummary {
  rollouts: number;
  answered: number;
  /** Share of all rollouts that solved their scenario; null when there were none. */
  success: number | null;
  reward: number | null;
  /** Mean of each part of the reward, and its number of rollouts. */
  parts: Record<string, { mean: number; n: number }>;
  completion_tokens: number | null;
  /** Success by kind of scenario, where scenarios have kinds. */
  kinds: Kinds;
  ends: Record<string, number>;
  /** Rollouts that ended by no fault of the player, by cause, and the reason of the first of them. */
  broken_off: Record<string, number>;
  broken_off_reason: string | null;
  tool_errors: Record<string, number>;
  /** What happened with MCP servers: see the events of a trajectory. */
  servers: Record<string, number>;
  /** Counts of rollouts that the task's own code played. */
  agent: Record<string, number>;
}

function addTo(sums: Map<string, number>, counts: object | undefined): void {
  for (const [name, n] of Object.entries((counts ?? {}) as Record<string, number>)) {
    sums.set(name, (sums.get(name) ?? 0) + n);
  }
}

const orNull = (value: number) => (Number.isFinite(value) ? value : null);

/** Running figures over rollouts as they finish. Accuracy is over all of them, not over those that answered. */
export class RolloutTally {
  readonly reward = new Mean();
  readonly success = new Mean();
  readonly completionTokens = new Mean();
  readonly #ends = new Map<string, number>();
  readonly #brokenOff = new Map<string, number>();
  #reason: string | null = null;
  readonly #errors = new Map<string, number>();
  readonly #servers = new Map<string, number>();
  readonly #agent = new Map<string, number>();
  readonly #rollouts: Pick<Counted, "scenario" | "reward">[] = [];
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
    this.#rollouts.push({ scenario: rollout.scenario, reward: rollout.reward });
    this.#ends.set(rollout.end, (this.#ends.get(rollout.end) ?? 0) + 1);
    const cause = brokenOff(rollout);
    if (cause !== null) {
      addTo(this.#brokenOff, { [cause]: 1 });
      this.#reason ??= rollout.reason ?? null;
    }
    addTo(this.#errors, callErrors([rollout]));
    addTo(this.#servers, rollout.servers);
    addTo(this.#agent, rollout.agent);
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

  summary(): RolloutSummary {
    return {
      rollouts: this.done,
      answered: this.#ends.get("answered") ?? 0,
      success: orNull(this.success.value),
      reward: orNull(this.reward.value),
      parts: meansOf(this.#rollouts.map(({ reward }) => reward.parts ?? {})),
      completion_tokens: orNull(this.completionTokens.value),
      kinds: byKind(this.#rollouts),
      ends: Object.fromEntries([...this.#ends].sort()),
      broken_off: Object.fromEntries([...this.#brokenOff].sort()),
      broken_off_reason: this.#reason,
      tool_errors: Object.fromEntries([...this.#errors].sort()),
      servers: Object.fromEntries([...this.#servers].sort()),
      agent: Object.fromEntries([...this.#agent].sort()),
    };
  }
}
