/** Choice of a GGUF file among those of a repository or folder. */
import { HoneError, UsageError } from "../../core/util/errors.js";
import type { Weights } from "./catalogue.js";

/** Whether a GGUF file is one of several that a model was split into. */
export const isPart = (file: string) => /-\d{5}-of-\d{5}\.gguf$/i.test(file);

/** llama.cpp would read all parts of a split model, the learner would not. */
export function checkOneFile(file: string, name: string): void {
  if (!isPart(file)) return;
  throw new HoneError(
    `${name} is one part of a model; hone takes models in one file (join them with llama-gguf-split)`,
  );
}

export function theOneOf(
  files: readonly string[],
  place: string,
  written: (place: string, file: string) => string,
): string {
  const whole = files.filter((one) => !isPart(one));
  const [file, another] = whole;
  if (another !== undefined) {
    throw new UsageError(
      `${place} has several GGUF files; give one of them: ${whole.map((one) => written(place, one)).join(", ")}`,
    );
  }
  if (file !== undefined) return file;
  const [part] = files;
  if (part !== undefined) checkOneFile(part, `${part} of ${place}`);
  throw new HoneError(`${place} has no GGUF file`);
}

/** A file of a repository, as `--model` takes it. */
export const written = (place: string, file: string) => `hf:${place}:${file}`;

/** @param weights requested weight type: file names may state theirs */
export function chooseGguf(
  files: readonly string[],
  place: string,
  file: string | undefined,
  weights: Weights | undefined,
): string {
  if (file !== undefined) {
    if (files.includes(file)) {
      checkOneFile(file, file);
      return file;
    }
    throw new UsageError(`${place} has no file ${file}; it has ${files.join(", ") || "no GGUF file"}`);
  }
  const spelling = weights === "f16" ? "fp?16" : weights;
  const fitting =
    weights === undefined ? [] : files.filter((one) => new RegExp(`\\b${spelling}\\.gguf$`, "i").test(one));
  return theOneOf(fitting.length === 1 ? fitting : files, place, written);
}
