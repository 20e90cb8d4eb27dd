/**
 * Counts requests and their cost under a cap: a request is admitted only when the budget covers its highest possible cost.
 */
import type { JudgeUsage } from "../core/run/verdicts.js";
import { costOf, type Price } from "./prices.js";

export function noUsage(): JudgeUsage {
  return { requests: 0, prompt_tokens: 0, completion_tokens: 0, cost: null };
}

/** Of several judges together; its cost is null where one's is not known. */
export function sumOfUsage(all: readonly JudgeUsage[]): JudgeUsage {
  return all.reduce((sum, one) => ({
    requests: sum.requests + one.requests,
    prompt_tokens: sum.prompt_tokens + one.prompt_tokens,
    completion_tokens: sum.completion_tokens + one.completion_tokens,
    cost: sum.cost === null || one.cost === null ? null : sum.cost + one.cost,
  }));
}

export interface JudgeBudgetSettings {
  readonly price: Price | null;
  /** Dollars; undefined means no cap. */
  readonly maxCost: number | undefined;
  /** Dollars that others under the same cap have spent or reserved. */
  readonly others?: (() => number) | undefined;
  /** Completion tokens to assume before the first answer. */
  readonly completionGuess: number;
}

export class JudgeBudget {
  readonly #settings: JudgeBudgetSettings;
  readonly #usage: JudgeUsage;
  /** Dollars reserved for requests under way, and for those that were never billed but may have been. */
  #reserved = 0;
  #answers = 0;
  #completionTokens = 0;

  /** @param before cost so far under the same cap */
  constructor(settings: JudgeBudgetSettings, before: JudgeUsage) {
    this.#settings = settings;
    this.#usage = { ...before, cost: settings.price ? (before.cost ?? 0) : null };
  }

  usage(): JudgeUsage {
    return { ...this.#usage };
  }

  /** Dollars spent or reserved. */
  get committed(): number {
    return (this.#usage.cost ?? 0) + this.#reserved;
  }

  /** Counts a request that has reached the server. */
  sent(): void {
    this.#usage.requests++;
  }

  /** Reserves dollars for a request and returns them; undefined when the budget has less left. */
  hold(promptTokens: number): number | undefined {
    const { price, maxCost, others, completionGuess } = this.#settings;
    if (!price) return 0;
    const usual = this.#answers === 0 ? completionGuess : Math.ceil(this.#completionTokens / this.#answers);
    const most = costOf(price, promptTokens, usual);
    if (maxCost !== undefined && this.committed + (others?.() ?? 0) + most > maxCost) return undefined;
    this.#reserved += most;
    return most;
  }

  /** Releases a reservation: the request was billed, or certainly never will be. */
  release(held: number): void {
    this.#reserved -= held;
  }

  /**
   * Books an answer with its billed usage.
   * @returns its dollars; null where the price is not known
   */
  bill(promptTokens: number, completionTokens: number): number | null {
    this.#usage.prompt_tokens += promptTokens;
    this.#usage.completion_tokens += completionTokens;
    const { price } = this.#settings;
    const cost = price ? costOf(price, promptTokens, completionTokens) : null;
    if (cost !== null) this.#usage.cost = (this.#usage.cost ?? 0) + cost;
    this.#answers++;
    this.#completionTokens += completionTokens;
    return cost;
  }
}
