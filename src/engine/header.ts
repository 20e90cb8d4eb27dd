/**
 * The header of a GGUF file, by node-llama-cpp. No other file's exported types name its own: their declarations need types of
 * packages that users of hone do not have.
 */
import type { GgufFileInfo } from "node-llama-cpp";
import { HoneError, messageOf } from "../util/index.js";

/** Loaded lazily: importing it takes longer than everything else in a rollout worker. */
export const reader = () => import("node-llama-cpp");

export async function header(file: string, readTensorInfo: boolean): Promise<GgufFileInfo> {
  const { readGgufFileInfo } = await reader();
  try {
    return await readGgufFileInfo(file, { readTensorInfo, logWarnings: false });
  } catch (error) {
    throw new HoneError(`${file} is not a GGUF model: ${messageOf(error).split("\n")[0]}`, { cause: error });
  }
}
