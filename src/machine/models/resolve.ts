/** From `--model` to the GGUF file that the engine loads: found, downloaded or converted. */
import { basename } from "node:path";
import { DEFAULT_WEIGHTS } from "./catalogue.js";
import { checkOneFile } from "./gguf-files.js";
import type { ModelIo } from "./io.js";
import { readReference } from "./reference.js";
import type { ModelConfig, ResolvedModel, ResolveOptions } from "./wanted.js";

/**
 * Returns the GGUF file of a model. A complete local copy is used without any request.
 *
 * @throws UsageError for an unknown name
 * @throws HoneError when the model cannot be fetched or used: the reason in one line, before any long work
 */
export async function resolveModel(
  reference: string,
  config: ModelConfig,
  io: ModelIo,
  options?: ResolveOptions,
): Promise<string> {
  return (await resolveWithSource(reference, config, io, options)).file;
}

/** As {@link resolveModel}, with what the file was made from. */
export async function resolveWithSource(
  reference: string,
  config: ModelConfig,
  io: ModelIo,
  options: ResolveOptions = {},
): Promise<ResolvedModel> {
  const { weights } = config;
  const known = readReference(reference, weights ?? DEFAULT_WEIGHTS);
  // A file that is used as it is needs nothing of what fetches and converts.
  if (known.kind === "file" && weights === undefined) {
    checkOneFile(known.path, basename(known.path));
    return { file: known.path, source: undefined, original: undefined };
  }
  const { findModel } = await import("./found.js");
  return await findModel(known, config, io, options);
}
