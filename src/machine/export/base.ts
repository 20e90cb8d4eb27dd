/** The base model as referred to in an export. */
import { existsSync, statSync } from "node:fs";
import { basename } from "node:path";
import { UsageError } from "../../core/util/errors.js";
import { catalogue } from "../models/catalogue.js";
import { isCatalogueName, isRepository, nameOf, readReference } from "../models/reference.js";

export interface Base {
  /** Name for messages and the model card. */
  readonly name: string;
  /** Repository of the Hub; null if unknown. */
  readonly repository: string | null;
  readonly licence: string | null;
  /** Arguments with which transformers loads it from that repository. */
  readonly loading: Readonly<Record<string, string>>;
}

/**
 * @param reference the model of the run; need not exist here any more
 * @param given --base-name
 */
export function baseOf(reference: string, given: string | undefined): Base {
  if (given !== undefined && !isRepository(given)) {
    throw new UsageError(`--base-name ${given}: a repository on the Hub is written ORGANISATION/NAME`);
  }
  const entry = isCatalogueName(reference) ? catalogue().get(reference) : undefined;
  const licence = entry?.licence ?? null;
  const plain = { licence, loading: {} };
  if (given !== undefined) return { name: given, repository: given, ...plain };
  if (entry) {
    if ("repository" in entry) return { name: entry.repository, repository: entry.repository, ...plain };
    const from = "path" in entry ? "comes with hone" : `from the Python package ${entry.wheel.name}`;
    return { name: `${reference} (${from})`, repository: null, ...plain };
  }
  try {
    const known = readReference(reference, "f16");
    if (known.kind !== "hub") return { name: nameOf(known), repository: null, ...plain };
    const { repository, revision, file } = known;
    const loading = { ...(revision !== "main" && { revision }), ...(file !== undefined && { gguf_file: file }) };
    return { name: repository, repository, licence, loading };
  } catch (error) {
    // A moved file or folder: use its name.
    if (error instanceof UsageError) return { name: basename(reference), repository: null, ...plain };
    throw error;
  }
}

/** PEFT's `base_model_name_or_path`: where the base model is loaded from. */
export const peftBaseName = ({ repository }: Base, reference: string) =>
  repository ?? (existsSync(reference) && statSync(reference).isDirectory() ? reference : null);
