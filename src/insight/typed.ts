/** Options as they are typed, for messages that say what to run. */
import { flagOf, type GivenOptions, type OptionName, options } from "../core/config/config.js";
import { shellWord } from "../core/util/text.js";

/** Pairs whose value is JSON where it can be: a text that looks like JSON is quoted as such. */
function pairText(name: string, value: unknown, kind: string): string {
  if (typeof value !== "string") return `${name}=${JSON.stringify(value)}`;
  if (kind === "texts") return `${name}=${value}`;
  try {
    JSON.parse(value);
  } catch {
    // It is read as text.
    return `${name}=${value}`;
  }
  return `${name}=${JSON.stringify(value)}`;
}

function wordsOf(name: OptionName, value: unknown): string[] {
  const { kind } = options[name];
  if (kind === "flag") return [value ? flagOf(name) : flagOf(`no-${name}`)];
  if (kind === "list") return [flagOf(name), (value as string[]).join(",")];
  if (kind === "words") return [flagOf(name), ...(value as string[])];
  if (kind !== "pairs" && kind !== "texts") return [flagOf(name), String(value)];
  return [flagOf(name), ...Object.entries(value as object).map(([key, one]) => pairText(key, one, kind))];
}

/**
 * Flags that give these options, " --model x --n 4"; "" for none. Secrets, and what no flag gives, are left out.
 *
 * @param names which of them, as of a command that takes not all
 */
export function typed(given: GivenOptions, names: readonly OptionName[]): string {
  return names
    .filter((name) => given[name] !== undefined && !options[name].secret && !options[name].flagless)
    .flatMap((name) => wordsOf(name, given[name]))
    .map((one) => ` ${shellWord(one)}`)
    .join("");
}
