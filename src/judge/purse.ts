/** What was asked and what it cost, under a cap: a request is let through only when the money for it is there. */
import { costOf, type Price } from "./prices.js";

export interface JudgeUsage {
  /** Sent, whatever came back. */
  requests: number;
  /** As the server billed them; by estimate where it does not say. */
  prompt_tokens: number;
  completion_tokens: number;
  /** Dollars; null where the model's price is not known. */
  cost: number | null;
}

export function noUsage(): JudgeUsage {
  return { requests: 0, prompt_tokens: 0, completion_tokens: 0, cost: null };
}

export interface PurseSettings {
  readonly price: Price | null;
  /** Dollars; undefined is no cap. */
  readonly maxCost: number | undefined;
  /** Completion tokens to reckon with before any answer was seen. */
  readonly completionGuess: number;
}

export class Purse {
  readonly #settings: PurseSettings;
  readonly #usage: JudgeUsage;
  /** Dollars that requests under way may cost, and those that were never billed may have. */
  #reserved = 0;
  #answers = 0;
  #completionTokens = 0;

  /** @param before what was spent before, under the same cap */
  constructor(settings: PurseSettings, before: JudgeUsage) {
    this.#settings = settings;
    this.#usage = { ...before, cost: settings.price ? (before.cost ?? 0) : null };
  }

  usage(): JudgeUsage {
    return { ...this.#usage };
  }

  /** A request has reached the server. */
  sent(): void {
    this.#usage.requests++;
  }

  /** Tokens that an answer has, as far as is known. */
  get usualCompletion(): number {
    return this.#answers === 0 ? this.#settings.completionGuess : Math.ceil(this.#completionTokens / this.#answers);
  }

  /** Dollars held for a request; undefined when there are not as many left. */
  hold(promptTokens: number): number | undefined {
    const { price, maxCost } = this.#settings;
    if (!price) return 0;
    const most = costOf(price, promptTokens, this.usualCompletion);
    if (maxCost !== undefined && (this.#usage.cost ?? 0) + this.#reserved + most > maxCost) return undefined;
    this.#reserved += most;
    return most;
  }

  /** What was held is not needed: the request was billed, or surely never will be. */
  release(held: number): void {
    this.#reserved -= held;
  }

  /** An answer has come with its bill. */
  bill(promptTokens: number, completionTokens: number): void {
    this.#usage.prompt_tokens += promptTokens;
    this.#usage.completion_tokens += completionTokens;
    const { price } = this.#settings;
    if (price) this.#usage.cost = (this.#usage.cost ?? 0) + costOf(price, promptTokens, completionTokens);
    this.#answers++;
    this.#completionTokens += completionTokens;
  }
}
