/** The part of docs/trust.md that follows from the results. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";
import { faults as all } from "./faults.js";
import { cleanRuns, faultList, type ProveResults, summary, trlTable } from "./table.js";

const DOCUMENT = join(packageRoot, "docs/trust.md");
const MARKS = ["<!-- from bench/results/prove.json -->", "<!-- until here -->"] as const;

export function tables({ faults, clean, trl }: ProveResults): string {
  const tried = new Set(faults.map(({ family, name }) => `${family} ${name}`));
  const left = all.filter(({ family, name }) => !tried.has(`${family} ${name}`));
  const names = left.map(({ family, name }) => `${name} (${family})`).join("; ");
  const without = left.length === 0 ? "" : `\n\nNot tried yet on this machine, ${left.length} faults: ${names}.`;
  const cleanly = clean.length === 0 ? "None was recorded yet." : cleanRuns(clean);
  const beside = trl === undefined ? "" : `\n\n## The same faults in TRL\n\n${trlTable(trl, faults)}`;
  return `${summary(faults)}\n\n${faultList(faults)}${without}\n\n## Runs without a fault\n\n${cleanly}${beside}`;
}

/** The document with these tables in the place of those it has. */
export function withTables(document: string, results: ProveResults): string {
  const [before, rest] = document.split(MARKS[0]);
  const after = rest?.split(MARKS[1])[1];
  if (after === undefined) throw new Error(`docs/trust.md lacks ${MARKS.join(" or ")}`);
  return `${before}${MARKS[0]}\n\n${tables(results)}\n\n${MARKS[1]}${after}`;
}

export const readDocument = () => readFileSync(DOCUMENT, "utf8");

export const writeTables = (results: ProveResults) => writeFileSync(DOCUMENT, withTables(readDocument(), results));
