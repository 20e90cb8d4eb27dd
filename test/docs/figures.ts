/** Figures of bench/results as the pages write them. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import { packageRoot } from "../../src/core/util/paths.js";
import { textOf } from "./blocks.js";

export interface Share {
  readonly success: number;
  readonly low: number;
  readonly high: number;
  readonly n: number;
  readonly reward: number;
  readonly parts: Readonly<Record<string, { readonly mean: number }>>;
  readonly tool_errors: Readonly<Record<string, number>>;
}
export interface Outcome {
  readonly name: string;
  readonly mismatch: { readonly mean: number; readonly p99: number };
  /** Least effective sample size of a step, as a share of its tokens, where it was recorded. */
  readonly leastEss?: number;
  /** Seconds of all steps. */
  readonly phases: Readonly<Record<"rollouts" | "update" | "total", number>>;
  readonly validations: readonly Share[];
  readonly heldOut: readonly Share[];
  readonly greedy: readonly Share[];
  readonly unseenNames: readonly Share[];
  readonly unseenNamesGreedy: readonly Share[];
}

/** A file of bench/results; who reads it knows its form. */
export const resultsOf = (file: string) => JSON.parse(readFileSync(join(packageRoot, "bench/results", file), "utf8"));

export const outcomesOf = (file: string): Outcome[] => resultsOf(file).outcomes;

/** The rows of a page's table whose first header cell is given, as cells without bold type. */
export function rowsOf(page: string, header: string): string[][] {
  const lines = textOf(page).split("\n");
  const start = lines.findIndex((line) => line.startsWith(`| ${header} |`));
  expect(start, `${page} has a table "${header}"`).toBeGreaterThan(-1);
  const rest = lines.slice(start + 2);
  const end = rest.findIndex((line) => !line.startsWith("|"));
  return rest.slice(0, end).map((line) =>
    line
      .replaceAll("**", "")
      .split("|")
      .slice(1, -1)
      .map((cell) => cell.trim()),
  );
}

export const percent = (share: number, digits: number) => (100 * share).toFixed(digits);
export const atStart = (shares: readonly Share[]) => `${percent((shares[0] as Share).success, 1)} %`;
export const atEnd = (shares: readonly Share[], digits: number) => {
  const { success, low, high } = shares.at(-1) as Share;
  return `${percent(success, 1)} % (${percent(low, digits)} to ${percent(high, digits)})`;
};

/** Mean over runs, with the lowest and the highest. */
export const meanOf = (successes: readonly number[]) => {
  const mean = successes.reduce((sum, one) => sum + one, 0) / successes.length;
  return `${percent(mean, 1)} % (${percent(Math.min(...successes), 1)} to ${percent(Math.max(...successes), 1)})`;
};
