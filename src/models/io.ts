/** Who hears how a model comes to this machine. */

export interface ModelIo {
  log(text: string): void;
  /** Progress that may be shown or not. */
  update(line: () => string): void;
  readonly signal?: AbortSignal | undefined;
}

/** Milliseconds between two lines of progress that stay. */
const INTERVAL = 10_000;

/** Progress as lines now and then, for those who have lines alone. */
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
