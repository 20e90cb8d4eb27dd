/** The parts of docs/trust.md that follow from the results. */
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../../src/core/util/paths.js";
import { wrapped } from "../../src/core/util/text.js";
import type { Fault, Outcome } from "./fault.js";
import { faults as all } from "./faults.js";
import { cleanRuns, familyTable, outsideShare, outsideTable, type ProveResults, trlText } from "./table.js";

const DOCUMENT = join(packageRoot, "docs/trust.md");
const MARKS = {
  share: ["<!-- the share from bench/results/prove.json -->", "<!-- end of the share -->"],
  tables: ["<!-- from bench/results/prove.json -->", "<!-- until here -->"],
} as const;

export const keyOf = ({ family, name }: { readonly family: string; readonly name: string }) => `${family} ${name}`;
const outsideOf = (kind: Fault["outside"], { faults }: Pick<ProveResults, "faults">) => {
  const keys = new Set(all.filter(({ outside }) => outside === kind).map(keyOf));
  return faults.filter((one) => keys.has(keyOf(one)));
};

/** Whose the rows of the newest lists are. */
function kin(results: ProveResults): string {
  const akin = new Set(all.filter((fault) => fault.akin).map(keyOf));
  const [fourth, sixth] = (["fourth", "sixth"] as const).map((kind) => outsideOf(kind, results));
  const of = (list: readonly Outcome[] = []) => list.filter((one) => akin.has(keyOf(one))).length;
  const sentence = `The first ${fourth?.length} are a fourth list, the other ${sixth?.length} a sixth, by another author. ${of(fourth)} and ${of(sixth)} of them are akin to faults of earlier lists, which the authors had not seen.`;
  return wrapped(sentence, 128).join("\n");
}

/** The newest lists: no guard was written for them before they were tried. */
const lastOf = (results: ProveResults) => (["fourth", "sixth"] as const).flatMap((kind) => outsideOf(kind, results));

export function tables(results: ProveResults): string {
  const { faults, clean, trl } = results;
  const tried = new Set(faults.map(keyOf));
  const left = all.filter((fault) => !tried.has(keyOf(fault)));
  const names = left.map(({ family, name }) => `${name} (${family})`).join("; ");
  const without = left.length === 0 ? "" : `\n\nNot tried yet on this machine, ${left.length} faults: ${names}.`;
  const cleanly = clean.length === 0 ? "None was recorded yet." : cleanRuns(clean);
  const beside = trl === undefined ? "" : `\n\n## The same faults in TRL\n\n${trlText(trl, faults)}`;
  const [own, met] = [outsideOf(undefined, results), outsideOf("met", results)];
  return [
    `### Faults from outside\n\n${outsideTable(lastOf(results))}\n\n${kin(results)}`,
    `### Earlier faults\n\n${familyTable(met, own)}${without}`,
    `## Runs without a fault\n\n${cleanly}${beside}`,
  ].join("\n\n");
}

/** The document with these tables in the place of those it has. */
export function withTables(document: string, results: ProveResults): string {
  const put = (text: string, [begin, end]: readonly [string, string], content: string) => {
    const [before, rest] = text.split(begin);
    const after = rest?.split(end)[1];
    if (after === undefined) throw new Error(`docs/trust.md lacks ${begin} or ${end}`);
    return `${before}${begin}\n\n${content}\n\n${end}${after}`;
  };
  const earlier = (["third", "unmet"] as const).flatMap((kind) => outsideOf(kind, results));
  const share = outsideShare(lastOf(results), earlier);
  return put(put(document, MARKS.share, share), MARKS.tables, tables(results));
}

export const readDocument = () => readFileSync(DOCUMENT, "utf8");

export const writeTables = (results: ProveResults) => writeFileSync(DOCUMENT, withTables(readDocument(), results));
