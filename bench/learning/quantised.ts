/** SmolLM2 in other types of weights than its package has, written by llama.cpp's own llama-quantize. */
import { existsSync, mkdirSync, renameSync } from "node:fs";
import { dirname, join } from "node:path";
import { withDefaults } from "../../src/core/config/config.js";
import { HoneError } from "../../src/core/util/errors.js";
import { packageRoot } from "../../src/core/util/paths.js";
import { downloadOptions } from "../../src/machine/input-options.js";
import { resolveModel } from "../../src/machine/models/resolve.js";
import { buildLlamaTool, output, toolEnvironment } from "../llama-tools.js";

/** Q4_K_M has tensors of Q5_0 and Q8_0 where a row is no multiple of 256 values, as SmolLM2's 576 are. */
export const quantisedTypes = ["q8_0", "q4_k_m"] as const;
export type QuantisedType = (typeof quantisedTypes)[number];

export const quantisedFile = (type: QuantisedType) =>
  join(packageRoot, "build", "quantised", `smollm2-135m-${type}.gguf`);

/** Makes the file where it is not there: the package's Q4_1 weights as f16, quantised again. */
export async function ensureQuantised(type: QuantisedType, log: (line: string) => void): Promise<void> {
  const file = quantisedFile(type);
  if (existsSync(file)) return;
  const source = await resolveModel(
    "smollm2-135m-q4_1",
    withDefaults(["weights", "home", ...downloadOptions], { weights: "f16" }),
    { log },
  );
  const tool = await buildLlamaTool("llama-quantize", log);
  mkdirSync(dirname(file), { recursive: true });
  log(`writing ${file}`);
  const { code, text } = await output(tool, [source, `${file}.part`, type, "2"], { env: toolEnvironment() });
  if (code !== 0) throw new HoneError(`llama-quantize failed: ${text.trim().split("\n").at(-1)}`);
  renameSync(`${file}.part`, file);
}
