/** Fewer bits a weight, by the llama.cpp that plays. */

import { engineError } from "../core/engine/errors.js";
import { openAddon } from "./addon.js";
import { decodeThreads } from "./threads.js";

/** Types that weights are quantised to. */
export type Quantised = "q8_0" | "q4_k_m";

/**
 * Writes `to`, from a model file whose weights have 16 bits or more.
 * @throws HoneError when llama.cpp cannot; a part of the file may be there then
 */
export async function quantizeModel(from: string, to: string, type: Quantised): Promise<void> {
  const addon = await openAddon(false);
  try {
    await addon.quantize(from, to, type, decodeThreads(undefined));
  } catch (error) {
    throw engineError(error);
  }
}
