/** One line of progress: redrawn in place on a terminal, printed now and then where there is none (a log, a pipe). */
import { stripVTControlCharacters } from "node:util";

export { clock } from "../util/index.js";

/** Milliseconds between two drawings. */
const TERMINAL_INTERVAL = 100;
const PLAIN_INTERVAL = 10_000;

const CLEAR = "\r\u001b[2K";

export class ProgressLine {
  readonly #stream: NodeJS.WriteStream;
  #drawn = false;
  #last = 0;

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
    // The first plain line comes after an interval: short jobs print only their result.
    if (!stream.isTTY) this.#last = performance.now();
  }

  /** Shows the text that `line` makes, when it is time to draw again. */
  update(line: () => string): void {
    const now = performance.now();
    if (now - this.#last < (this.#stream.isTTY ? TERMINAL_INTERVAL : PLAIN_INTERVAL)) return;
    this.#last = now;
    const text = line();
    if (!this.#stream.isTTY) this.#stream.write(`${stripVTControlCharacters(text)}\n`);
    else {
      // A line that wraps could not be taken back.
      this.#stream.write(CLEAR + clip(text, (this.#stream.columns ?? 80) - 1));
      this.#drawn = true;
    }
  }

  /** Prints a line that stays, above the progress. */
  say(text: string): void {
    this.clear();
    this.#stream.write(`${text}\n`);
  }

  /** Takes the progress away. */
  clear(): void {
    if (this.#drawn) this.#stream.write(CLEAR);
    this.#drawn = false;
  }
}

/** Cuts text with colours in it to so many columns, colours put back at the end. */
function clip(text: string, columns: number): string {
  if (stripVTControlCharacters(text).length <= columns) return text;
  return stripVTControlCharacters(text).slice(0, columns);
}

/** A bar of so many cells: "█████░░░". */
export function bar(share: number, cells: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * cells);
  return "█".repeat(full) + "░".repeat(cells - full);
}

/** A number for people: three significant places, thousands in groups. */
export function compact(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}
