/** Small helpers for text. */
import { styleText } from "node:util";

/** The first `length` UTF-16 units at most, never half of a character. */
export function cutText(text: string, length: number): string {
  if (text.length <= length) return text;
  const last = text.charCodeAt(length - 1);
  const splitsPair = last >= 0xd800 && last <= 0xdbff;
  return text.slice(0, splitsPair ? length - 1 : length);
}

/**
 * Text for a terminal: without control characters, with which text from outside could move the cursor, and without
 * bidirectional marks, with which it could show "exe.png" for "gnp.exe".
 */
export function printable(text: string): string {
  return text.replace(/[^\P{Cc}\n\t]|\p{Bidi_Control}/gu, "");
}

/** A word of a command line as a POSIX shell takes it. */
export const shellWord = (text: string) =>
  /^[\w./:=@%+,-]+$/.test(text) ? text : `'${text.replaceAll("'", String.raw`'\''`)}'`;

type Style = "bold" | "dim" | "inverse" | "red" | "green" | "yellow" | "magenta" | "cyan";

/** Gives text for a terminal one style, or several from the outermost on. */
export type Paint = (style: Style | Style[], text: string) => string;

/** @param useColours whether the stream is a terminal; with NO_COLOR in the environment it gets plain text all the same */
export function painter(useColours: boolean | undefined): Paint {
  if (!useColours || process.env.NO_COLOR) return (_, text) => text;
  // Node would ask standard output, which need not be the stream.
  return (style, text) => styleText(style, text, { validateStream: false });
}

/** The codes with which {@link painter} begins and ends its styles: none of them hides text. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the escape character is what is looked for.
const STYLE = /(\u001b\[(?:[127]|2[27]|3[1-6]|39)m)/;

/** As {@link printable}, for text that hone itself has styled: the colours stay. */
export function printableStyled(text: string): string {
  // Every other part is a style.
  return text
    .split(STYLE)
    .map((part, index) => (index % 2 === 1 ? part : printable(part)))
    .join("");
}

/** The same JSON with what {@link printable} takes out written as escapes; JSON itself escapes the lower half of it. */
export function printableJson(json: string): string {
  return json.replace(/[\u007f-\u009f]|\p{Bidi_Control}/gu, (character) => {
    return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** "1:05" or "2:03:00". */
export function clock(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  const two = (n: number) => String(n).padStart(2, "0");
  const hours = Math.floor(whole / 3600);
  const minutes = Math.floor(whole / 60) % 60;
  return hours > 0 ? `${hours}:${two(minutes)}:${two(whole % 60)}` : `${minutes}:${two(whole % 60)}`;
}

/** Lines of at most `width` characters, broken between words. */
export function wrapped(text: string, width: number): string[] {
  const lines: string[] = [];
  for (const word of text.split(" ")) {
    const longer = `${lines.at(-1)} ${word}`;
    if (lines.length > 0 && longer.length <= width) lines.splice(-1, 1, longer);
    else lines.push(word);
  }
  return lines;
}

/**
 * Lines of cells, as wide as the widest of their column.
 *
 * @param figures the cells after the first are aligned to the right
 */
export function tableText(rows: readonly (readonly string[])[], figures = false): string {
  const most = Math.max(...rows.map((row) => row.length));
  const widths = Array.from({ length: most }, (_, i) => Math.max(...rows.map((row) => row[i]?.length ?? 0)));
  const padded = (cell: string, i: number) =>
    figures && i > 0 ? cell.padStart(widths[i] as number) : cell.padEnd(widths[i] as number);
  return rows.map((row) => row.map(padded).join("  ").trimEnd()).join("\n");
}
