/**
 * Counts requests and their cost under a cap: a request is admitted only when the cap covers the most that it is expected to cost.
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
  /** Of these budgets together. */
  readonly cap: Cap;
  /** Completion tokens of an answer at most; undefined: as the server likes. */
  readonly maxTokens: number | undefined;
}

/** Completion tokens to assume before the first answer, when no limit is set. */
const COMPLETION_GUESS = 500;

/** Dollars that the requests of one or several judges may cost together. */
export class Cap {
  /** Undefined: no cap. */
  readonly dollars: number | undefined;
  /** Judges under it. */
  judges = 0;
  /** Dollars spent. */
  spent = 0;
  /** Dollars reserved for requests under way, and for those that were never billed but may have been. */
  reserved = 0;
  #underWay = 0;
  /** Those that wait until a request has ended. */
  readonly #waiting: (() => void)[] = [];

  constructor(dollars: number | undefined) {
    this.dollars = dollars;
  }

  /**
   * Waits for requests under way while the cap has no room for another.
   * @param hold reserves, or returns undefined
   * @returns what was reserved; undefined where none is under way, and there still is no room
   */
  async admit(hold: () => number | undefined, signal: AbortSignal): Promise<number | undefined> {
    let held = hold();
    while (held === undefined && this.#underWay > 0) {
      await new Promise<void>((ended) => this.#waiting.push(ended));
      signal.throwIfAborted();
      held = hold();
    }
    if (held !== undefined) this.#underWay++;
    return held;
  }

  /** A request that was admitted has ended. */
  ended(): void {
    this.#underWay--;
    for (const look of this.#waiting.splice(0)) look();
  }
}

export class JudgeBudget {
  readonly #settings: JudgeBudgetSettings;
  readonly #usage: JudgeUsage;
  /** Completion tokens of the longest answer. */
  #longest = 0;

  /** @param before cost so far under the same cap */
  constructor(settings: JudgeBudgetSettings, before: JudgeUsage) {
    this.#settings = settings;
    this.#usage = { ...before, cost: settings.price ? (before.cost ?? 0) : null };
    settings.cap.judges++;
    settings.cap.spent += this.#usage.cost ?? 0;
  }

  usage(): JudgeUsage {
    return { ...this.#usage };
  }

  /** Counts a request that has reached the server. */
  sent(): void {
    this.#usage.requests++;
  }

  /** Reserves dollars for a request and returns them; undefined when the cap has less left. */
  hold(promptTokens: number): number | undefined {
    const { price, cap, maxTokens } = this.#settings;
    if (!price) return 0;
    const most = costOf(price, promptTokens, maxTokens ?? (this.#longest || COMPLETION_GUESS));
    if (cap.dollars !== undefined && cap.spent + cap.reserved + most > cap.dollars) return undefined;
    cap.reserved += most;
    return most;
  }

  /** Releases a reservation: the request was billed, or certainly never will be. */
  release(held: number): void {
    this.#settings.cap.reserved -= held;
  }

  /**
   * Books an answer with its billed usage.
   * @returns its dollars; null where the price is not known
   */
  bill(promptTokens: number, completionTokens: number): number | null {
    this.#usage.prompt_tokens += promptTokens;
    this.#usage.completion_tokens += completionTokens;
    const { price, cap } = this.#settings;
    const cost = price ? costOf(price, promptTokens, completionTokens) : null;
    if (cost !== null) this.#usage.cost = (this.#usage.cost ?? 0) + cost;
    cap.spent += cost ?? 0;
    this.#longest = Math.max(this.#longest, completionTokens);
    return cost;
  }
}
