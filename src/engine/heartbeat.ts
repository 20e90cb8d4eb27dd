/** Progress of long installations: programs such as pip print nothing for minutes. */
import type { OnLine } from "../core/util/run.js";

const EVERY_MS = 10_000;

/** "1 min 30 s" */
const duration = (seconds: number) =>
  seconds < 60 ? `${seconds} s` : `${Math.floor(seconds / 60)} min${seconds % 60 === 0 ? "" : ` ${seconds % 60} s`}`;

/**
 * Runs `work` with a listener for its lines. When no line came for a while, `onLine` gets the last one again with the time
 * that it has taken so far.
 *
 * @param every milliseconds without a line
 */
export async function withHeartbeat<T>(onLine: OnLine, work: (onLine: OnLine) => Promise<T>, every = EVERY_MS) {
  let last = "";
  let since = Date.now();
  let timer: NodeJS.Timeout | undefined;
  const beat = () => onLine(`still ${last} (${duration(Math.round((Date.now() - since) / 1000))})`);
  const listener: OnLine = (line) => {
    clearInterval(timer);
    last = line;
    since = Date.now();
    timer = setInterval(beat, every);
    onLine(line);
  };
  try {
    return await work(listener);
  } finally {
    clearInterval(timer);
  }
}
