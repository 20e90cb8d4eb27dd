/**
 * Progress output: one line or a few, redrawn in place on a terminal, every second at least, so that the time in it goes on; without a
 * terminal (a log, a pipe) the first line is printed every ten seconds, also where nothing is reported meanwhile.
 */
import { printable, printableStyled } from "../../core/util/text.js";

/** Milliseconds between redraws: at least, and at most where nothing is reported. */
const TERMINAL_INTERVAL = 100;
const TERMINAL_PAUSE = 1000;
const PLAIN_INTERVAL = 10_000;

const CLEAR = "\r\u001b[2K";
const UP_AND_CLEAR = "\u001b[1A\u001b[2K";

export class ProgressLine {
  readonly #stream: NodeJS.WriteStream;
  /** Number of lines currently drawn. */
  #drawn = 0;
  #last = 0;
  /** Shows again what is shown. */
  #timer: NodeJS.Timeout | undefined;
  #line: () => string = () => "";

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream;
  }

  /** Width of a progress line at most: a wrapped line could not be erased. */
  get columns(): number {
    return (this.#stream.columns ?? 80) - 1;
  }

  /** Shows the text that `line` makes until there is another. */
  update(line: () => string): void {
    this.#line = line;
    if (!this.#stream.isTTY) {
      // The first plain line comes after one interval: short jobs print only their result.
      this.#timer ??= setInterval(() => this.#print(), PLAIN_INTERVAL).unref();
      return;
    }
    if (performance.now() - this.#last < TERMINAL_INTERVAL) return;
    this.#draw();
    this.#timer ??= setInterval(() => this.#draw(), TERMINAL_PAUSE).unref();
  }

  #draw(): void {
    this.#last = performance.now();
    const lines = printable(this.#line())
      .split("\n")
      .map((one) => one.slice(0, this.columns));
    this.#stream.write((this.#taken() || CLEAR) + lines.join("\n"));
    this.#drawn = lines.length;
  }

  #print(): void {
    this.#stream.write(`${printable(this.#line()).split("\n", 1)[0] ?? ""}\n`);
  }

  /** Prints a permanent line above the progress. */
  log(text: string): void {
    this.#write(printable(text));
  }

  /** As {@link log}, for text that hone itself has styled: its colours stay. */
  show(text: string): void {
    this.#write(printableStyled(text));
  }

  #write(text: string): void {
    this.#erase();
    this.#stream.write(`${text}\n`);
  }

  /** Erases the progress, until it is updated again. */
  clear(): void {
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#erase();
  }

  #erase(): void {
    if (this.#drawn > 0) this.#stream.write(this.#taken());
    this.#drawn = 0;
  }

  /** The escape codes that erase the drawn lines. */
  #taken(): string {
    return this.#drawn === 0 ? "" : CLEAR + UP_AND_CLEAR.repeat(this.#drawn - 1);
  }
}

const SPARKS = "▁▂▃▄▅▆▇█";

/** A sparkline of values, from the lowest to the highest: "▁▃▆█". The last `cells` values; empty without cells. */
export function sparkline(values: readonly number[], cells: number): string {
  const shown = cells > 0 ? values.filter(Number.isFinite).slice(-cells) : [];
  const low = Math.min(...shown);
  const reach = Math.max(...shown) - low;
  const height = (value: number) => (reach === 0 ? 3 : Math.round(((value - low) / reach) * (SPARKS.length - 1)));
  return shown.map((value) => SPARKS[height(value)]).join("");
}

/** A progress bar: "█████░░░". */
export function bar(share: number, cells: number): string {
  const full = Math.round(Math.min(1, Math.max(0, share)) * cells);
  return "█".repeat(full) + "░".repeat(cells - full);
}

/** What the learner does, with how much of it is done where it says that: "update █████░░░ 2/4". */
export const learnerProgress = ({ phase, done, total }: { phase: string; done: number; total: number }): string =>
  total > 0 ? `${phase} ${bar(done / total, 20)} ${done}/${total}` : phase;

/** A number for people: three significant places, thousands in groups. */
export function compact(value: number): string {
  if (!Number.isFinite(value)) return "–";
  if (Math.abs(value) >= 1000) return Math.round(value).toLocaleString("en-US");
  return String(Number(value.toPrecision(3)));
}
