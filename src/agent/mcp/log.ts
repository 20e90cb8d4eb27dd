/** Logs the servers' stderr: one file per server, each line with its owner; the last lines are kept for errors. */
import { appendFileSync, mkdirSync } from "node:fs";
import { join } from "node:path";

/** Maximum number of bytes logged for one process of a server, so that its output cannot fill the disk. */
const MOST_BYTES = 1_048_576;
const TAIL_LINES = 5;
const LINE_CHARS = 2000;

export class ServerLog {
  readonly file: string;
  readonly #label: string;
  #open = "";
  #written = 0;
  #tail: string[] = [];

  constructor(folder: string, server: string, label: string) {
    this.file = join(folder, `${server.replace(/[^\w.-]/g, "_")}.log`);
    this.#label = label;
  }

  write(text: string): void {
    const lines = (this.#open + text).split("\n");
    this.#open = (lines.pop() as string).slice(0, LINE_CHARS);
    this.#keep(lines.filter((line) => line.trim() !== ""));
  }

  /** Adds a line of hone's own about the server. */
  note(line: string): void {
    this.#keep([line]);
  }

  /** The last lines, for an error; empty when there were none. */
  tail(): string {
    return [...this.#tail, this.#open].filter((line) => line.trim() !== "").join(" | ");
  }

  #keep(lines: readonly string[]): void {
    const kept = lines.map((line) => line.trimEnd().slice(0, LINE_CHARS));
    this.#tail = [...this.#tail, ...kept].slice(-TAIL_LINES);
    if (this.#written > MOST_BYTES || kept.length === 0) return;
    const text = kept.map((line) => `[${this.#label}] ${line}\n`).join("");
    this.#written += Buffer.byteLength(text);
    const cut = this.#written > MOST_BYTES ? `[${this.#label}] (the rest is not kept)\n` : "";
    try {
      mkdirSync(join(this.file, ".."), { recursive: true });
      appendFileSync(this.file, text + cut);
    } catch {
      // A log that cannot be written must not end a rollout; errors still contain the last lines.
      this.#written = Number.POSITIVE_INFINITY;
    }
  }
}
