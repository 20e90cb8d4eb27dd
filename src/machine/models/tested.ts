/** What of a model hone's tests and recorded runs have computed. */
import { architectureNamed } from "../architectures.js";
import type { CatalogueEntry } from "./catalogue.js";

/**
 * @param entry of the catalogue, for models that it names
 * @param architecture llama.cpp's name, where it is known
 * @returns null for a model of which nothing was tested
 */
export function testedOf(entry: CatalogueEntry | undefined, architecture: string | undefined): string | null {
  if (entry && "path" in entry) return "its own weights, in most tests";
  if (entry && "wheel" in entry) return "its published weights, in trainings of three seeds (docs/results.md)";
  if (architecture === undefined || architectureNamed(architecture) === undefined) return null;
  const random = `random weights of the architecture ${architecture} in engine and learner, against transformers`;
  return entry
    ? `${random}, and in two layers with its whole vocabulary and chat template; not its published weights`
    : `${random}; neither its vocabulary and template nor its weights`;
}
