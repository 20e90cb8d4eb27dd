/**
 * Numbered checkpoint folders: `checkpoints/0021/` with the files of one update and a manifest of their hashes. A folder
 * is written aside and renamed when it is complete, so a folder with a number is complete. The store alone decides which
 * numbers count: a folder that it does not name is set aside at the next start.
 */
import { copyFileSync, existsSync, mkdirSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { z } from "zod";
import { codeOf, HoneError } from "../util/errors.js";
import { flush, moveDurably, sha256OfFile, writeDurably } from "../util/files.js";
import { FORMAT, requireFormat } from "./format.js";

const manifestSchema = z.object({
  version: z.literal(FORMAT),
  /** The run that made it, and the step whose update it holds. */
  run: z.string(),
  step: z.number().int(),
  /** For a fork: the run and the step that made the checkpoint. */
  origin: z.object({ run: z.string(), step: z.number().int() }).optional(),
  /** The base model that the adapter fits (fingerprint of its file), and the adapter's shape. */
  model: z.string(),
  lora: z.object({ rank: z.number(), alpha: z.number(), targets: z.array(z.string()) }),
  /** By path within the folder. */
  files: z.record(z.string(), z.object({ sha256: z.string(), bytes: z.number() })),
});

export type Manifest = z.output<typeof manifestSchema>;

/** Name of the adapter file that the engine loads, inside a checkpoint. */
export const ADAPTER_FILE = "adapter.gguf";
const MANIFEST_FILE = "manifest.json";
const UNREFERENCED = "unreferenced";
const NUMBERED = /^\d{4,}$/;

/** Paths of all files below a folder, relative to it, sorted. */
const filesBelow = (folder: string): string[] =>
  readdirSync(folder, { recursive: true, encoding: "utf8" })
    .filter((path) => !statSync(join(folder, path)).isDirectory())
    .sort();

/** @throws HoneError when the folder is no checkpoint */
export function readManifest(folder: string): Manifest {
  const file = join(folder, MANIFEST_FILE);
  let text: string;
  try {
    text = readFileSync(file, "utf8");
  } catch (error) {
    if (codeOf(error) !== "ENOENT" && codeOf(error) !== "ENOTDIR") throw error;
    throw new HoneError(`${folder} is no checkpoint: it has no ${MANIFEST_FILE}`);
  }
  try {
    const manifest = z.looseObject({ version: z.number() }).parse(JSON.parse(text));
    requireFormat(manifest.version, `the checkpoint ${folder}`, join(folder, "adapter"));
    return manifestSchema.parse(manifest);
  } catch (error) {
    if (error instanceof HoneError) throw error;
    throw new HoneError(`${file} is not a checkpoint manifest of hone`, { cause: error });
  }
}

/**
 * Reads every file of a checkpoint and compares it with the manifest.
 * @throws HoneError naming the file that is missing or differs
 */
export async function verifyCheckpoint(folder: string): Promise<Manifest> {
  const manifest = readManifest(folder);
  for (const [path, { sha256, bytes }] of Object.entries(manifest.files)) {
    const file = join(folder, path);
    const whole = existsSync(file) && statSync(file).size === bytes && (await sha256OfFile(file)) === sha256;
    if (!whole) {
      throw new HoneError(
        `the checkpoint ${folder} is damaged: ${path} is not what its manifest says; start a new run from another one with --fork`,
      );
    }
  }
  return manifest;
}

export interface Published {
  /** SHA-256 of the adapter as the engine loads it. */
  readonly adapter: string;
}

/**
 * Writes the manifest of a folder: from then on it is a checkpoint.
 * @param paths files of it, relative to the folder
 * @throws HoneError when there is no adapter among them
 */
export async function sealCheckpoint(
  folder: string,
  about: Omit<Manifest, "version" | "files">,
  paths: readonly string[],
): Promise<Published> {
  const files: Manifest["files"] = {};
  for (const path of paths) {
    const file = join(folder, path);
    files[path] = { sha256: await sha256OfFile(file), bytes: statSync(file).size };
  }
  const adapter = files[ADAPTER_FILE];
  if (!adapter) throw new HoneError(`the update of step ${about.step} wrote no ${ADAPTER_FILE}`);
  const manifest: Manifest = { version: FORMAT, ...about, files };
  writeDurably(join(folder, MANIFEST_FILE), `${JSON.stringify(manifest, null, 2)}\n`);
  return { adapter: adapter.sha256 };
}

export class Checkpoints {
  readonly #folder: string;

  /** @param folder created with the first checkpoint */
  constructor(folder: string) {
    this.#folder = folder;
  }

  pathOf(step: number): string {
    return join(this.#folder, String(step).padStart(4, "0"));
  }

  adapterOf(step: number): string {
    return join(this.pathOf(step), ADAPTER_FILE);
  }

  /** Numbers of the existing folders, in rising order. */
  list(): number[] {
    return this.#names()
      .filter((name) => NUMBERED.test(name))
      .map(Number)
      .sort((a, b) => a - b);
  }

  /** A folder for the files of a step, which whoever writes them makes, until `publish` gives it its number. */
  draft(step: number): string {
    const folder = this.#draftOf(step);
    rmSync(folder, { recursive: true, force: true });
    return folder;
  }

  /**
   * Turns a draft into a checkpoint: manifest, flush, rename. The learner has flushed the files themselves.
   * @throws HoneError when the draft of this step is not there
   */
  async publish(step: number, about: Omit<Manifest, "version" | "step" | "files">): Promise<Published> {
    const draft = this.#draftOf(step);
    if (!existsSync(draft)) {
      throw new HoneError(
        `checkpoint ${step} cannot be published: no files were written for that step; nothing was changed`,
      );
    }
    const published = await sealCheckpoint(draft, { ...about, step }, filesBelow(draft));
    // Of a step that was taken back.
    if (existsSync(this.pathOf(step))) this.#moveAside(step);
    moveDurably(draft, this.pathOf(step));
    return published;
  }

  /** Copies another run's checkpoint as number 0, the start of a fork. */
  async adopt(folder: string, run: string): Promise<Published> {
    const source = await verifyCheckpoint(folder);
    const draft = this.draft(0);
    for (const path of Object.keys(source.files)) {
      const file = join(draft, path);
      mkdirSync(dirname(file), { recursive: true });
      copyFileSync(join(folder, path), file);
      flush(file);
    }
    const origin = source.origin ?? { run: source.run, step: source.step };
    return this.publish(0, { run, origin, model: source.model, lora: source.lora });
  }

  /** Moves every numbered folder that is not in `referenced` to "unreferenced", and deletes drafts. Returns the numbers. */
  setAside(referenced: ReadonlySet<number>): number[] {
    for (const name of this.#names()) {
      if (name.startsWith(".")) rmSync(join(this.#folder, name), { recursive: true });
    }
    const moved = this.list().filter((step) => !referenced.has(step));
    for (const step of moved) this.#moveAside(step);
    return moved;
  }

  /** Deletes all but `keep`, and set-aside folders whose number exists again. Returns the deleted numbers. */
  prune(keep: ReadonlySet<number>): number[] {
    const present = this.list();
    const gone = present.filter((step) => !keep.has(step));
    for (const step of gone) {
      // Renamed first: a numbered folder is always complete.
      const dropped = join(this.#folder, `.dropped-${step}`);
      moveDurably(this.pathOf(step), dropped);
      rmSync(dropped, { recursive: true });
    }
    for (const step of present) rmSync(this.#asideOf(step), { recursive: true, force: true });
    return gone;
  }

  #moveAside(step: number): void {
    const aside = this.#asideOf(step);
    mkdirSync(dirname(aside), { recursive: true });
    rmSync(aside, { recursive: true, force: true });
    moveDurably(this.pathOf(step), aside);
  }

  #names(): string[] {
    return existsSync(this.#folder) ? readdirSync(this.#folder) : [];
  }

  #draftOf(step: number): string {
    return join(this.#folder, `.draft-${step}`);
  }

  #asideOf(step: number): string {
    return join(this.#folder, UNREFERENCED, String(step).padStart(4, "0"));
  }
}
