/**
 * A GPU's driver may compile its kernels when they are first used (see native/engine/warm_up.h). The engine triggers this
 * before the first turn, while it is loaded, or at the first adapter; where it takes long, one line is shown. So is what is loaded,
 * again and again, where that takes long: from a slow disk, or beside other programs.
 */
import type { Addon } from "./addon.js";

const LOOK_EVERY_MS = 250;
/** A driver with a filled cache takes less than this many milliseconds. */
const LOG_AFTER_MS = 2000;
const LOADING_EVERY_MS = 10_000;

export const COMPILING =
  "compiling the GPU's kernels; the first load on a card takes up to some minutes, later ones do not";

/**
 * Runs work during which a GPU may have to compile, and reports it once if it lasts.
 * @param loading what the work loads
 */
export async function whileCompiling<T>(
  addon: Pick<Addon, "warming">,
  log: ((line: string) => void) | undefined,
  work: () => Promise<T>,
  loading?: string,
): Promise<T> {
  if (!log) return work();
  const begun = Date.now();
  let told = 0;
  let since: number | undefined;
  let logged = false;
  const timer = setInterval(() => {
    const spent = Date.now() - begun;
    if (loading !== undefined && !addon.warming() && spent >= told + LOADING_EVERY_MS) {
      told = spent;
      log(`loading ${loading}, ${Math.round(spent / 1000)} s`);
    }
    if (!addon.warming()) since = undefined;
    else since ??= Date.now();
    if (logged || since === undefined || Date.now() - since < LOG_AFTER_MS) return;
    logged = true;
    log(COMPILING);
  }, LOOK_EVERY_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
