/** Formats numbers and names. */

const NONE = "–";

/** Three significant digits, with grouped thousands. */
export function number(value: number | null | undefined): string {
  if (value === null || value === undefined || !Number.isFinite(value)) return NONE;
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
  if (value !== 0 && Math.abs(value) < 0.001) return value.toExponential(1);
  return String(Number(value.toPrecision(3)));
}

export const percent = (share: number | null | undefined): string =>
  share === null || share === undefined || !Number.isFinite(share) ? NONE : `${(100 * share).toFixed(1)} %`;

/** A share, or a mean, of so many: of none there is none. */
export const shareOf = (share: number | null, n: number): string => percent(n > 0 ? share : null);
export const meanOf = (value: number | null, n: number): string => number(n > 0 ? value : null);

export const signed = (value: number | null | undefined): string =>
  typeof value === "number" && value > 0 ? `+${number(value)}` : number(value).replace("-", "−");

export const gigabytes = (bytes: number | null | undefined): string =>
  typeof bytes === "number" ? `${number(bytes / 1e9)} GB` : NONE;

export const seconds = (value: number | null | undefined): string => {
  if (typeof value !== "number") return NONE;
  return value > 0 && value < 0.001 ? "under 0.001 s" : `${number(value)} s`;
};

/** "45 s", "3:20 min", "2:05 h": how long something took. */
export function clock(value: number): string {
  const whole = Math.round(value);
  if (whole < 60) return `${whole} s`;
  const [small, unit] = whole < 3600 ? [whole, "min"] : [Math.round(whole / 60), "h"];
  return `${Math.floor(small / 60)}:${String(small % 60).padStart(2, "0")} ${unit}`;
}

/** "turn limit" for turn_limit. */
export const words = (name: string): string => name.replaceAll("_", " ");

/** What a rollout did that ended so, after a number. */
const ENDED: Readonly<Record<string, string>> = {
  answered: "answered",
  no_tool_call: "ended without a call",
  turn_limit: "ran into the turn limit",
  token_limit: "were cut at the token limit",
  context_limit: "filled the context",
  deadline: "ran out of time",
  tool_failure: "had a tool that failed",
  bad_call: "ended by a call that cannot run",
  open_call: "left a call open",
  model_mistake: "ended by a mistake of the model",
};
export const ended = (end: string): string => ENDED[end] ?? words(end);

/** Why a call did not run; another name as it is. */
const REFUSED: Readonly<Record<string, string>> = {
  malformed: "could not be read",
  unknown_tool: "no such tool",
  bad_arguments: "wrong arguments",
  tool_error: "refused by the tool",
};
export const refused = (outcome: string): string => REFUSED[outcome] ?? words(outcome);

/** "step 4", "steps 1 to 3, 7 and 9": numbers in rising order. */
export function stepsText(steps: readonly number[], most = 4): string {
  const ranges: [number, number][] = [];
  for (const step of steps) {
    const last = ranges.at(-1);
    if (last && last[1] + 1 === step) last[1] = step;
    else ranges.push([step, step]);
  }
  const shown = ranges.length > most ? ranges.slice(0, most - 1) : ranges;
  const texts = shown.map(([from, to]) => (from === to ? `${from}` : `${from} to ${to}`));
  const left = steps.length - shown.reduce((sum, [from, to]) => sum + to - from + 1, 0);
  const all = [...texts, ...(left > 0 ? [`${left} more`] : [])];
  const list = all.length > 1 ? `${all.slice(0, -1).join(", ")} and ${all.at(-1)}` : all[0];
  return `${steps.length > 1 ? "steps" : "step"} ${list}`;
}

/** Counts by name, summed. */
export function total(all: Iterable<Readonly<Record<string, number>>>): Record<string, number> {
  const sums: Record<string, number> = {};
  for (const one of all) for (const [name, n] of Object.entries(one)) sums[name] = (sums[name] ?? 0) + n;
  return sums;
}

/** How often each name is there. */
export const tally = (names: readonly string[]): Record<string, number> => total(names.map((name) => ({ [name]: 1 })));

/** Names and counts, the most frequent first. */
export const ranked = (of: Readonly<Record<string, number>>): [string, number][] =>
  Object.entries(of).sort(([, a], [, b]) => b - a);

export function counts(of: Readonly<Record<string, number>>): string {
  return ranked(of)
    .map(([name, n]) => `${refused(name)} ${n}`)
    .join(", ");
}

/**
 * Shows text with its invisible characters: control characters are replaced by their pictures (U+2400 on), direction
 * marks by their code points.
 */
export function visible(text: string): string {
  return (
    text
      // biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
      .replace(/[\u0000-\u0008\u000b-\u001f]/g, (one) => String.fromCharCode(0x2400 + one.charCodeAt(0)))
      .replace(/[\u007f-\u009f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g, (one) => {
        const code = one.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0");
        return `⟨U+${code}⟩`;
      })
  );
}

export const mean = (values: readonly number[]): number =>
  values.length === 0 ? Number.NaN : values.reduce((sum, value) => sum + value, 0) / values.length;
