/** Options that had another name. The old flag, variable and key of a config file are still read, with a notice. */
import { printable, UsageError } from "../util/index.js";

/** New names by old ones. */
export const renamed: Readonly<Record<string, string>> = {
  group: "groupSize",
  groups: "groupsPerStep",
  maxGap: "maxMismatch",
};

/** The old names of these options. */
export const oldNamesOf = (names: readonly string[]): string[] =>
  Object.keys(renamed).filter((name) => names.includes(renamed[name] as string));

const noticed = new Set<string>();

/** One line for each old name and process, on stderr: the output may be read by programs. */
function notice(line: string): void {
  if (noticed.has(line)) return;
  noticed.add(line);
  process.stderr.write(`hone: ${printable(line)}\n`);
}

/**
 * Values under the options' present names.
 *
 * @param where the source of the values, for messages: "" or "hone.config.ts: "
 * @param written how that source writes an option's name: `--max-gap`, `HONE_MAX_GAP`, `maxGap`
 * @throws UsageError when an option is given by both names
 */
export function withPresentNames<T>(
  values: Readonly<Record<string, T>>,
  where: string,
  written: (name: string) => string = (name) => name,
): Record<string, T> {
  const present: Record<string, T> = {};
  for (const [name, value] of Object.entries(values)) {
    const now = Object.hasOwn(renamed, name) ? (renamed[name] as string) : name;
    if (now !== name && value !== undefined) {
      if (values[now] !== undefined)
        throw new UsageError(`${where}${written(name)} is the old name of ${written(now)}; give only one of them`);
      notice(`${where}${written(name)} is now called ${written(now)}; the old name is still read`);
    }
    if (value !== undefined || !Object.hasOwn(present, now)) present[now] = value;
  }
  return present;
}

/** The same without a notice, for records of older versions. */
export function presentNames(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [renamed[name] ?? name, value]));
}
