/** An evaluation of several players on the same scenarios: a column for each, and the differences of each pair of columns. */
import type { Evaluation } from "../../core/run/records.js";
import type { Scenario, Split } from "../../core/task/task.js";
import { type PairedMeans, type PairedShares, pairedMeans, pairedShares } from "./paired.js";

/** The player of a column. */
export interface Contestant {
  /** The name as given; unique among the columns. */
  readonly name: string;
  readonly kind: "checkpoint" | "model" | "api" | "expert";
  /** Heading of the column: the name, and for a checkpoint its step. */
  readonly title: string;
  /** For a checkpoint: the step whose update it holds; null for the base model and for other players. */
  readonly step: number | null;
  /** A model's reference, an API's URL. */
  readonly of: string;
}

/** Cost of playing. */
export interface Effort {
  /** Rollouts played to an end, including those without a verdict. */
  readonly rollouts: number;
  /** Prompt tokens over all rollouts; an API is sent the whole conversation again in every turn. */
  readonly promptTokens: number;
  readonly completionTokens: number;
  /** Dollars; null where the price is unknown, or the API reported no token counts. */
  readonly cost: number | null;
  /** From the first rollout to the last; 0 for a checkpoint that was played under another name. */
  readonly seconds: number;
}

export interface Result {
  readonly figures: Evaluation;
  readonly effort: Effort;
  readonly outcomes: readonly Outcome[];
}

/** Result on one scenario. */
export interface Outcome {
  readonly scenario: string;
  readonly success: boolean;
  readonly reward: number;
  readonly end: string;
  readonly turns: number;
  readonly tokens: number;
}

export interface Column extends Contestant {
  /** Null where the player failed. */
  readonly result: Result | null;
  /** One line that says why there is no result. */
  readonly problem: string | null;
}

/** Second minus first, over the scenarios for which both have a result. */
export interface Pair {
  readonly first: string;
  readonly second: string;
  readonly success: PairedShares;
  readonly reward: PairedMeans;
}

export interface Matrix {
  readonly task: string;
  readonly split: Split;
  readonly seed: number;
  readonly scenarios: readonly Pick<Scenario, "id" | "question" | "kind">[];
  readonly columns: readonly Column[];
  readonly pairs: readonly Pair[];
}

/** All pairs of columns that have results on the same scenarios, in their order. */
export function pairsOf(columns: readonly Column[], seed: number): Pair[] {
  const whole = columns.flatMap(({ name, result }) => (result ? [{ name, outcomes: result.outcomes }] : []));
  const pairs = whole.flatMap((first, i) => whole.slice(i + 1).map((second) => pairOf(first, second, seed)));
  return pairs.filter(({ success }) => success.n > 0);
}

type Compared = Pick<Result, "outcomes"> & Pick<Contestant, "name">;

function pairOf(first: Compared, second: Compared, seed: number): Pair {
  const others = new Map(second.outcomes.map((outcome) => [outcome.scenario, outcome]));
  const pairs = first.outcomes.flatMap((one) => {
    const other = others.get(one.scenario);
    return other ? [{ one, other }] : [];
  });
  return {
    first: first.name,
    second: second.name,
    success: pairedShares(
      pairs.map(({ one }) => one.success),
      pairs.map(({ other }) => other.success),
    ),
    reward: pairedMeans(
      pairs.map(({ one }) => one.reward),
      pairs.map(({ other }) => other.reward),
      seed,
    ),
  };
}
