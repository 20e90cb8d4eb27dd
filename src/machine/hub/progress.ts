/** Formats the progress of a download as one line. */
import { clock } from "../../core/util/text.js";
import { sizeText } from "../plan/machine.js";
import type { HubProgress } from "./hub-options.js";

/** Transfer rate since the first call, and the time left at this rate. Bytes present at the start do not count. */
export class Rate {
  #start: { done: number; at: number } | undefined;

  /** Bytes per second and seconds left; undefined at the start. */
  of(done: number, total: number): { pace: number; left: number } | undefined {
    const now = performance.now() / 1000;
    this.#start ??= { done, at: now };
    const fetched = done - this.#start.done;
    const seconds = now - this.#start.at;
    if (fetched <= 0 || seconds <= 0) return undefined;
    return { pace: fetched / seconds, left: ((total - done) * seconds) / fetched };
  }
}

/** "downloading Qwen/Qwen2.5-0.5B-Instruct 512 MB of 1.0 GB (51 %), 40 MB/s, 0:12 left, model.safetensors" */
export function downloadLine({ repository, file, done, total }: HubProgress, rate: Rate): string {
  const at = rate.of(done, total);
  const percent = total > 0 ? Math.floor((100 * done) / total) : 100;
  const pace = at ? `, ${sizeText(at.pace)}/s, ${clock(at.left)} left` : "";
  return `downloading ${repository} ${sizeText(done)} of ${sizeText(total)} (${percent} %)${pace}, ${file}`;
}
