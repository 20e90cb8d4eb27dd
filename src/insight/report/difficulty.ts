/** How hard a run's scenarios were for the model that it started from, and which of them it trains on. */
import { readRange } from "../../core/config/option.js";
import type { ScenarioDifficulty } from "../../core/run/records.js";

export type DifficultyCount = NonNullable<ReturnType<typeof difficultyOf>>;

const shareOf = ({ n, successes }: ScenarioDifficulty) => successes / n;

/** Is a scenario trained on? */
export function isWithin(range: string, measured: ScenarioDifficulty): boolean {
  const { low, high } = readRange(range);
  return measured.n > 0 && shareOf(measured) >= low && shareOf(measured) <= high;
}

/**
 * @param within the run's --difficulty
 * @returns null for a run without it
 */
export function difficultyOf(rows: readonly ScenarioDifficulty[], within: unknown) {
  if (typeof within !== "string") return null;
  const { low, high } = readRange(within);
  const played = rows.filter(({ n }) => n > 0);
  return {
    /** Share of successes that a scenario has to have, as "0.1..0.9". */
    within,
    /** Scenarios that were played, and those of them that are trained on. */
    measured: rows.length,
    kept: rows.filter((row) => isWithin(within, row)).length,
    /** Set aside because fewer, or more, of their rollouts succeeded. */
    below: played.filter((row) => shareOf(row) < low).length,
    above: played.filter((row) => shareOf(row) > high).length,
    /** Set aside because none of their rollouts was played to an end and graded. */
    unplayed: rows.length - played.length,
  };
}

/** "120 of 300 scenarios are within difficulty 0.1..0.9; set aside: 100 solved less often, 80 more often" */
export function difficultyText({ within, measured, kept, below, above, unplayed }: DifficultyCount): string {
  const aside = [
    ...(below > 0 ? [`${below} solved less often`] : []),
    ...(above > 0 ? [`${above} more often`] : []),
    ...(unplayed > 0 ? [`${unplayed} without a rollout that counts`] : []),
  ];
  return `${kept} of ${measured} measured scenarios are within difficulty ${within}${aside.length > 0 ? `; set aside: ${aside.join(", ")}` : ""}`;
}
