/** Receivers of log lines and progress while a model is fetched. */

export interface ModelIo {
  log(text: string): void;
  /** Reports progress; a receiver may show every update, some, or none. */
  update(line: () => string): void;
  readonly signal?: AbortSignal | undefined;
}

/** Milliseconds between two logged lines of progress. */
const INTERVAL = 10_000;

/** Logs progress as a line every few seconds, for output without a progress bar. */
export function linesTo(log: (text: string) => void, signal?: AbortSignal): ModelIo {
  let last = performance.now();
  const update = (line: () => string) => {
    const now = performance.now();
    if (now - last < INTERVAL) return;
    last = now;
    log(line());
  };
  return { log, update, signal };
}
