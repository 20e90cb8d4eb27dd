/** bench/results: one file for each date, machine and set of versions. */
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { packageRoot } from "../src/core/util/paths.js";
import { type Hardware, slugOf } from "./hardware.js";
import type { Row } from "./row.js";

const resultsFolder = join(packageRoot, "bench", "results");

/** The setting of a measurement. Versions of unused packages may be missing. */
export interface Setting {
  readonly hardware: Hardware;
  readonly versions: Readonly<Record<string, string>>;
}

export interface SpeedResults extends Setting {
  readonly rows: readonly Row[];
}

/** The folder is made. `part`: for the second set of versions of one day, and further ones. */
export function resultsFile(kind: string, hardware: Hardware, part = 1, folder = resultsFolder): string {
  mkdirSync(folder, { recursive: true });
  const date = new Date().toISOString().slice(0, 10);
  return join(folder, `${kind}-${date}-${slugOf(hardware)}${part === 1 ? "" : `-${part}`}.json`);
}

const contradict = (a: object, b: object) =>
  Object.entries(a).some(([key, value]) => ((b as Record<string, unknown>)[key] ?? value) !== value);

const idOf = ({ name, model, sequences }: Row) => `${name} ${model} ${sequences}`;

/**
 * Adds rows to the day's: a row takes the place of an older one with the same id. Figures of other versions or another machine
 * are never mixed with these, nor lost: they stay in a file of their own.
 *
 * @param order of the rows; without it a row stands where it was first written
 * @returns the file
 */
export function saveRows<R>(
  kind: string,
  { hardware, versions, rows }: Setting & { readonly rows: readonly R[] },
  idOf: (row: R) => string,
  { folder = resultsFolder, order }: { folder?: string | undefined; order?: (a: R, b: R) => number } = {},
): string {
  for (let part = 1; ; part++) {
    const file = resultsFile(kind, hardware, part, folder);
    const earlier = existsSync(file)
      ? (JSON.parse(readFileSync(file, "utf8")) as Setting & { readonly rows: readonly R[] })
      : undefined;
    if (earlier && (contradict(earlier.hardware, hardware) || contradict(earlier.versions, versions))) continue;
    const merged = [...new Map([...(earlier?.rows ?? []), ...rows].map((row) => [idOf(row), row])).values()];
    const results = {
      hardware,
      versions: { ...earlier?.versions, ...versions },
      rows: order ? merged.sort(order) : merged,
    };
    writeFileSync(file, `${JSON.stringify(results, null, 2)}\n`);
    return file;
  }
}

/** Rows of `yarn bench`, of which those of the same model and number of sequences are the same. */
export const saveSpeed = (results: SpeedResults, folder?: string): string =>
  saveRows("speed", results, idOf, {
    folder,
    order: (a, b) =>
      a.name.localeCompare(b.name) || a.model.localeCompare(b.model) || (a.sequences ?? 0) - (b.sequences ?? 0),
  });
