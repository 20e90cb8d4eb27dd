/** Notices a device that never ends what it computes. Nothing can be taken back from it then: only the process can be ended. */
import { awakeTime } from "../core/util/time-limit.js";
import type { NativeEngine } from "./addon.js";

/** Seconds in which no batch takes as long on any GPU. */
export const MOST_SECONDS = 900;
const LOOK_MS = 5000;

/**
 * @param others whether something else than a batch takes long now, such as compiling
 * @param onHung called once
 * @returns ends the watch
 */
export function watchDevice(
  engine: Pick<NativeEngine, "rounds">,
  others: () => boolean,
  onHung: () => void,
): () => void {
  let lanes: { readonly round: number; readonly since: number }[] = [];
  const timer = setInterval(() => {
    const now = awakeTime();
    const lasts = !others();
    lanes = Array.from(engine.rounds(), (round, lane) => {
      const before = lanes[lane];
      return lasts && before?.round === round ? before : { round, since: now };
    });
    if (!lanes.some(({ round, since }) => round !== 0 && now - since >= 1000 * MOST_SECONDS)) return;
    clearInterval(timer);
    onHung();
  }, LOOK_MS);
  // Does not keep an otherwise finished process alive.
  timer.unref();
  return () => clearInterval(timer);
}
