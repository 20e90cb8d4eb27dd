/** Which file a model's name stands for, and what can be known of it before it is loaded. */
import { existsSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { readGgufFileInfo } from "node-llama-cpp";
import { z } from "zod";
import { HoneError, messageOf, UsageError } from "../util/errors.js";
import { packageRoot } from "../util/paths.js";

const catalogueSchema = z.record(z.string(), z.object({ path: z.string() }).loose());

/** Models that come with hone: file by name. */
function catalogue(): Map<string, string> {
  const file = join(packageRoot, "models/catalog.json");
  if (!existsSync(file)) return new Map();
  const entries = catalogueSchema.parse(JSON.parse(readFileSync(file, "utf8")));
  return new Map(Object.entries(entries).map(([name, { path }]) => [name, join(packageRoot, "models", path)]));
}

/**
 * The GGUF file of a model: a name of models/catalog.json, or a path.
 *
 * @throws UsageError when there is no such file
 */
export function modelFile(reference: string): string {
  const known = catalogue();
  const file = known.get(reference) ?? resolve(reference);
  if (existsSync(file)) return file;
  const names = known.size > 0 ? `, or a model that comes with hone (${[...known.keys()].join(", ")})` : "";
  throw new UsageError(`--model: there is no file ${file}; give the path of a GGUF file${names}`);
}

/**
 * Tokens the model was trained with, from the file's header.
 *
 * @throws HoneError when the file is no GGUF model
 */
export async function trainedContext(file: string): Promise<number> {
  let context: unknown;
  try {
    const info = await readGgufFileInfo(file, { readTensorInfo: false, logWarnings: false });
    context = info.architectureMetadata.context_length;
  } catch (error) {
    throw new HoneError(`${file} is not a GGUF model: ${messageOf(error).split("\n")[0]}`, { cause: error });
  }
  if (typeof context !== "number") throw new HoneError(`${file} does not say how long its context is; is it a model?`);
  return context;
}
