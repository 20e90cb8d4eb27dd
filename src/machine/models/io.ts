/** Receivers of log lines and progress while a model is fetched. */

export interface ModelIo {
  readonly log: (text: string) => void;
  /** Shows how far it is, for output with a progress bar; without it a line is logged every few seconds. */
  readonly update?: ((line: () => string) => void) | undefined;
  readonly signal?: AbortSignal | undefined;
}

/** Milliseconds between two logged lines of progress. */
const INTERVAL = 10_000;

/** Shows the progress of one download or conversion, which begins now. */
export function progressTo({ log, update }: ModelIo): (line: () => string) => void {
  if (update) return update;
  let last = performance.now();
  return (line) => {
    const now = performance.now();
    if (now - last < INTERVAL) return;
    last = now;
    log(line());
  };
}
