/** Formats numbers and names, and computes the statistics behind them. */

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

/** The 95 % score interval of a share (Wilson 1927), as src/report/interval.ts has it. */
export function wilson(share: number, n: number): { low: number; high: number } {
  if (n === 0) return { low: 0, high: 1 };
  const z = 1.959963984540054;
  const scale = 1 + (z * z) / n;
  const centre = share + (z * z) / (2 * n);
  const reach = z * Math.sqrt((share * (1 - share)) / n + (z * z) / (4 * n * n));
  return { low: Math.max(0, (centre - reach) / scale), high: Math.min(1, (centre + reach) / scale) };
}

export const mean = (values: readonly number[]): number =>
  values.length === 0 ? Number.NaN : values.reduce((sum, value) => sum + value, 0) / values.length;

/** P(|t| < √n · tan θ) for n degrees of freedom (Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4). */
function within(angle: number, n: number): number {
  const cos = Math.cos(angle);
  const odd = n % 2 === 1;
  let sum = 0;
  let term = odd ? cos : 1;
  for (let power = odd ? 1 : 0; power <= n - 2; power += 2) {
    sum += term;
    term *= (cos * cos * (power + 1)) / (power + 2);
  }
  return odd ? (2 / Math.PI) * (angle + Math.sin(angle) * sum) : Math.sin(angle) * sum;
}

const known = new Map<number, number>();

/** The 97.5 % quantile of Student's t with n degrees of freedom, n a whole number from 1 on. */
export function studentT(n: number): number {
  const found = known.get(n);
  if (found !== undefined) return found;
  let low = 0;
  let high = Math.PI / 2;
  for (let i = 0; i < 60; i++) {
    const middle = (low + high) / 2;
    if (within(middle, n) < 0.95) low = middle;
    else high = middle;
  }
  const quantile = Math.sqrt(n) * Math.tan(low);
  known.set(n, quantile);
  return quantile;
}
