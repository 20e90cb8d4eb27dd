/** Tables of results in docs: each figure is that of a file in bench/results. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { packageRoot } from "../../src/util/paths.js";
import { textOf } from "./blocks.js";

interface Share {
  readonly success: number;
  readonly low: number;
  readonly high: number;
}
interface Outcome {
  readonly name: string;
  readonly validations: readonly Share[];
  readonly heldOut: readonly Share[];
  readonly greedy: readonly Share[];
  readonly unseenNames: readonly Share[];
  readonly unseenNamesGreedy: readonly Share[];
}

const outcomesOf = (file: string): Outcome[] =>
  JSON.parse(readFileSync(join(packageRoot, "bench/results", file), "utf8")).outcomes;

/** The rows of a page's table whose first header cell is given, as cells without bold type. */
function rowsOf(page: string, header: string): string[][] {
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

const percent = (share: number, digits: number) => (100 * share).toFixed(digits);
const before = (shares: readonly Share[]) => `${percent((shares[0] as Share).success, 1)} %`;
const after = (shares: readonly Share[], digits: number) => {
  const { success, low, high } = shares.at(-1) as Share;
  return `${percent(success, 1)} % (${percent(low, digits)} to ${percent(high, digits)})`;
};

/** Mean over runs, with the lowest and the highest. */
const meanOf = (successes: readonly number[]) => {
  const mean = successes.reduce((sum, one) => sum + one, 0) / successes.length;
  return `${percent(mean, 1)} % (${percent(Math.min(...successes), 1)} to ${percent(Math.max(...successes), 1)})`;
};

describe("docs/results.md", () => {
  it("has the runs of the tiny model as they were measured", () => {
    const labels: Readonly<Record<string, string>> = {
      "seed 1": "seed 1 (the default)",
      ...{ "seed 2": "seed 2", "seed 3": "seed 3", "learning rate 0": "learning rate 0" },
      ...{ "coins 1": "random rewards, seed 1", "coins 2": "random rewards, seed 2" },
      ...{ "coins 3": "random rewards, seed 3", "coins 4": "random rewards, seed 4" },
    };
    const rows = outcomesOf("learning-2026-11-21-amd-epyc-2-cores.json").map(
      ({ name, heldOut, greedy, unseenNames }) => [
        labels[name] as string,
        ...[heldOut, greedy, unseenNames].flatMap((shares) => [before(shares), after(shares, 1)]),
      ],
    );
    const byLabel = (table: string[][]) => table.toSorted(([a = ""], [b = ""]) => a.localeCompare(b));
    expect(byLabel(rowsOf("docs/results.md", "run, 30 steps"))).toEqual(byLabel(rows));
  });
});

describe("docs/tiny-model.md", () => {
  it("has the means of the runs from a base that was never taught the task", () => {
    const outcomes = outcomesOf("untaught-2026-11-23-intel-xeon-processor-2-cores.json");
    const row = (label: string, kind: string, at: 0 | -1) => {
      const runs = outcomes.filter(({ name }) => name.startsWith(kind));
      const successes = (shares: (one: Outcome) => readonly Share[]) =>
        runs.map((one) => (shares(one).at(at) as Share).success);
      return [
        label,
        meanOf(successes((one) => one.heldOut)),
        meanOf(successes((one) => one.greedy)),
        meanOf(successes((one) => one.unseenNames)),
        meanOf(successes((one) => one.unseenNamesGreedy)),
      ];
    };
    expect(rowsOf("docs/tiny-model.md", "success")).toEqual([
      row("before training", "seed", 0),
      row("the task's reward, 5 seeds", "seed", -1),
      row("rewards 0 and 1 alone, 5 seeds", "success", -1),
      row("control: random rewards, 3 seeds", "coins", -1),
    ]);
  });

  it("has the runs on sums in words as they were measured", () => {
    const outcomes = outcomesOf("word-sums-2026-11-23-intel-xeon-processor-2-cores.json");
    const rows = outcomes.map(({ name, heldOut, validations }) => [
      name,
      before(heldOut),
      ...validations.slice(1).map(({ success }) => `${percent(success, 0)} %`),
      after(heldOut, 0),
    ]);
    expect(rowsOf("docs/tiny-model.md", "run")).toEqual(rows);
  });
});
