/**
 * A GPU's driver may compile its kernels when they are first used (see native/engine/warm_up.h). The engine lets it do so
 * before the first turn, while it is loaded, or at the first adapter; where that takes long, one line says why.
 */
import type { Addon } from "./addon.js";

const LOOK_EVERY_MS = 250;
/** A driver that has compiled before takes less. */
const TELL_AFTER_MS = 2000;

export const COMPILING =
  "compiling the GPU's kernels; the first load on a card takes up to some minutes, later ones do not";

/** Runs work during which a GPU may have to compile, and says so once if that lasts. */
export async function whileCompiling<T>(
  addon: Pick<Addon, "warming">,
  say: ((line: string) => void) | undefined,
  work: () => Promise<T>,
): Promise<T> {
  if (!say) return work();
  let since: number | undefined;
  let told = false;
  const timer = setInterval(() => {
    if (!addon.warming()) since = undefined;
    else since ??= Date.now();
    if (told || since === undefined || Date.now() - since < TELL_AFTER_MS) return;
    told = true;
    say(COMPILING);
  }, LOOK_EVERY_MS);
  try {
    return await work();
  } finally {
    clearInterval(timer);
  }
}
