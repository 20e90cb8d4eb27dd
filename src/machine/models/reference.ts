/** Parses `--model`: a name of the catalogue, a repository of the Hub, a folder, or a file. */
import { createHash } from "node:crypto";
import { existsSync, realpathSync, statSync } from "node:fs";
import { basename, resolve } from "node:path";
import { UsageError } from "../../core/util/errors.js";
import { nearest } from "../../core/util/nearest.js";
import { packageRoot } from "../../core/util/paths.js";
import { hone } from "../../core/util/program.js";
import { folderName } from "../hub/cache.js";
import type { WheelPart } from "../python/wheel.js";
import { catalogue, type Weights } from "./catalogue.js";

export type ModelReference =
  | { readonly kind: "file"; readonly path: string }
  /** A folder in Hugging Face format. */
  | { readonly kind: "folder"; readonly path: string }
  | {
      readonly kind: "hub";
      readonly repository: string;
      readonly revision: string;
      /** A single GGUF file of the repository. */
      readonly file: string | undefined;
    }
  | WheelReference;

/** A GGUF file in a wheel of a Python package index. */
export type WheelReference = WheelPart & { readonly kind: "wheel" };

/** Whether a text has the form of a repository's name on the Hub. */
export const isRepository = (text: string) => /^[\w][\w.-]*\/[\w][\w.-]*$/.test(text) && !/\.\.|--/.test(text);

const REVISION = /^[\w][\w./-]*$/;

/**
 * @param weights requested weights: the catalogue may have a GGUF file with them
 * @param flag the option's name, for messages
 * @throws UsageError for an unknown name, with the nearest known one
 */
export function readReference(reference: string, weights: Weights, flag = "--model"): ModelReference {
  const entry = catalogue().get(reference);
  if (entry && "path" in entry) return { kind: "file", path: resolve(packageRoot, "models", entry.path) };
  if (entry && "wheel" in entry) {
    const { name, version, file, sha256 } = entry.wheel;
    return { kind: "wheel", name, version, file, sha256 };
  }
  if (entry?.gguf?.weights === weights) {
    const { repository, file } = entry.gguf;
    return { kind: "hub", repository, revision: "main", file };
  }
  if (entry) return onHub(flag, reference, entry.repository, undefined);
  if (reference.startsWith("hf:")) {
    const [, place = "", file] = /^hf:([^:]*)(?::(.*))?$/.exec(reference) ?? [];
    if (file !== undefined && (!/\.gguf$/i.test(file) || file.split("/").includes(".."))) {
      throw new UsageError(`${flag} ${reference}: give hf:REPOSITORY:FILE.gguf, the name of a GGUF file in it`);
    }
    return onHub(flag, reference, place, file);
  }
  if (existsSync(reference)) {
    const path = resolve(reference);
    return statSync(path).isDirectory() ? { kind: "folder", path } : { kind: "file", path };
  }
  const isFile = /\.gguf$/i.test(reference);
  // Text in the form of a path is a path.
  if (isFile || /^[.~/]/.test(reference)) {
    throw new UsageError(
      `${flag}: there is no file ${resolve(reference)}; give the path of a GGUF file or of a folder in Hugging Face form, or a name that \`${hone("models")}\` lists`,
    );
  }
  if (reference.includes("/")) return onHub(flag, reference, reference, undefined);
  const names = [...catalogue().keys()];
  const close = nearest(reference, names);
  throw new UsageError(
    `${flag}: there is no model ${reference}; ${close ? `did you mean ${close}? ` : ""}\`${hone("models")}\` lists the names, a Hub repository is written ORGANISATION/NAME, a file by its path`,
  );
}

function onHub(flag: string, reference: string, place: string, file: string | undefined): ModelReference {
  const [repository = "", revision = "main", ...more] = place.split("@");
  const wrong = !isRepository(repository) || more.length > 0;
  if (wrong || !REVISION.test(revision) || revision.split("/").includes("..")) {
    throw new UsageError(
      `${flag} ${reference}: a model on the Hub is written ORGANISATION/NAME, with a branch, tag or commit ORGANISATION/NAME@REVISION, one file of it hf:ORGANISATION/NAME:FILE.gguf`,
    );
  }
  return { kind: "hub", repository, revision, file };
}

/** Name for files and messages: "Qwen2.5-0.5B-Instruct". */
export function nameOf(reference: ModelReference): string {
  if (reference.kind === "hub") return reference.repository.split("/")[1] as string;
  return basename(reference.kind === "wheel" ? reference.file : reference.path).replace(/\.gguf$/i, "");
}

/** Prefix of the names of what was made of a model: its conversions, and its copies with other weights. Unique for each. */
export function labelOf(reference: ModelReference): string {
  // A repository's folder in the cache, so that no two repositories share one.
  if (reference.kind === "hub") return folderName({ kind: "model", id: reference.repository }).replace(/^models--/, "");
  if (reference.kind === "wheel") return `${nameOf(reference)}-${reference.sha256.slice(0, 8)}`;
  // With a hash of the path: several folders and files may have the same name.
  const place = realpathSync(reference.path);
  return `${reference.kind === "folder" ? basename(place) : nameOf(reference)}-${placeHash(place)}`;
}

const placeHash = (place: string) => createHash("sha256").update(place).digest("hex").slice(0, 8);

/** A name of the catalogue takes precedence over a file or folder of the same name. */
export const isCatalogueName = (reference: string) => catalogue().has(reference);
