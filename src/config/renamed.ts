/** Options that had another name. The old flag, variable and key of a config file are still read, with a notice. */
import { UsageError } from "../util/index.js";

/** New names by old ones. */
export const renamed: Readonly<Record<string, string>> = { maxGap: "maxMismatch" };

/** The old names of these options. */
export const oldNamesOf = (names: readonly string[]): string[] =>
  Object.keys(renamed).filter((name) => names.includes(renamed[name] as string));

const noticed = new Set<string>();

/** One line for each old name and process, on stderr: the output may be read by programs. */
function notice(line: string): void {
  if (noticed.has(line)) return;
  noticed.add(line);
  process.stderr.write(`hone: ${line}\n`);
}

/**
 * Values under the options' present names.
 *
 * @param nameIn how the source of the values writes an option: `--max-gap`, `HONE_MAX_GAP`, `hone.config.ts: maxGap`
 * @throws UsageError when an option is given by both names
 */
export function withPresentNames<T>(
  values: Readonly<Record<string, T>>,
  nameIn: (name: string) => string,
): Record<string, T> {
  const present: Record<string, T> = {};
  for (const [name, value] of Object.entries(values)) {
    const now = Object.hasOwn(renamed, name) ? (renamed[name] as string) : name;
    if (now !== name && value !== undefined) {
      if (values[now] !== undefined)
        throw new UsageError(`${nameIn(name)} is the old name of ${nameIn(now)}; give only one of them`);
      notice(`${nameIn(name)} is now called ${nameIn(now)}; the old name is still read`);
    }
    if (value !== undefined || !Object.hasOwn(present, now)) present[now] = value;
  }
  return present;
}

/** The same without a notice, for records of older versions. */
export function presentNames(values: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [renamed[name] ?? name, value]));
}
