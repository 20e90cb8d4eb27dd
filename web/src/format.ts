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

export const signed = (value: number | null | undefined): string =>
  typeof value === "number" && value > 0 ? `+${number(value)}` : number(value).replace("-", "−");

export const gigabytes = (bytes: number | null | undefined): string =>
  typeof bytes === "number" ? `${number(bytes / 1e9)} GB` : NONE;

export const seconds = (value: number | null | undefined): string =>
  typeof value === "number" ? `${number(value)} s` : NONE;

/** "turn limit" for turn_limit. */
export const words = (name: string): string => name.replaceAll("_", " ");

export function counts(of: Readonly<Record<string, number>>): string {
  return Object.entries(of)
    .sort(([, a], [, b]) => b - a)
    .map(([name, n]) => `${words(name)} ${n}`)
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
