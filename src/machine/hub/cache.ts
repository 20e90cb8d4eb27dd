/**
 * The cache shared by Hugging Face's tools: a folder for each repository with `blobs/` (contents, named by their
 * checksum), `snapshots/COMMIT/` (file names, links to blobs) and `refs/NAME` (the commit of a branch or tag). Python's
 * downloads are used here, and hone's by Python.
 */
import {
  existsSync,
  lstatSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from "node:fs";
import { basename, dirname, join, relative } from "node:path";
import { codeOf, HoneError } from "../../core/util/errors.js";
import { moveDurably, writeDurably } from "../../core/util/files.js";

export interface Repository {
  readonly kind: "model" | "dataset";
  /** "Qwen/Qwen2.5-0.5B-Instruct" */
  readonly id: string;
}

const isCommit = (revision: string) => /^[0-9a-f]{40}$/.test(revision);

/** "models--Qwen--Qwen2.5-0.5B-Instruct" */
export const folderName = ({ kind, id }: Repository) => `${kind}s--${id.replaceAll("/", "--")}`;

/** One repository's folder in the cache. It need not exist. */
export class RepositoryCache {
  readonly folder: string;
  /** Lock of downloads: one process at a time fetches from a repository. */
  readonly lockFile: string;

  constructor(cache: string, repository: Repository) {
    const name = folderName(repository);
    this.folder = join(cache, name);
    this.lockFile = join(cache, ".locks", name, "hone.lock");
  }

  /** The commit of a branch, a tag or a commit hash; undefined when nothing was downloaded for it. */
  commitOf(revision: string): string | undefined {
    if (isCommit(revision)) return existsSync(this.snapshot(revision)) ? revision : undefined;
    const file = join(this.folder, "refs", revision);
    // A branch may be called as a folder of others is.
    const commit = existsSync(file) && statSync(file).isFile() ? readFileSync(file, "utf8").trim() : "";
    return isCommit(commit) ? commit : undefined;
  }

  nameCommit(revision: string, commit: string): void {
    if (isCommit(revision)) return;
    const file = join(this.folder, "refs", revision);
    mkdirSync(dirname(file), { recursive: true });
    // No trailing newline, since Python compares the text as it is.
    writeDurably(file, commit);
  }

  snapshot(commit: string): string {
    return join(this.folder, "snapshots", commit);
  }

  /** Paths of a commit's files that are present, sorted. Broken links do not count. */
  files(commit: string): string[] {
    const root = this.snapshot(commit);
    const paths = existsSync(root) ? readdirSync(root, { recursive: true, encoding: "utf8" }) : [];
    return paths.filter((path) => statSync(join(root, path), { throwIfNoEntry: false })?.isFile()).sort();
  }

  blob(checksum: string): string {
    return join(this.folder, "blobs", checksum);
  }

  /** Links a blob into a commit's snapshot. */
  link(commit: string, path: string, checksum: string): void {
    const name = join(this.snapshot(commit), path);
    const blob = this.blob(checksum);
    mkdirSync(dirname(name), { recursive: true });
    const target = relative(dirname(name), blob);
    if (isLink(name) && readlinkSync(name) === target) return;
    const aside = `${name}.${process.pid}`;
    rmSync(aside, { force: true });
    try {
      symlinkSync(target, aside);
      renameSync(aside, name);
    } catch (error) {
      // File systems without links get the file itself, as with Python.
      if (!["EPERM", "ENOSYS", "ENOTSUP", "EOPNOTSUPP"].includes(codeOf(error) ?? "")) throw error;
      moveDurably(blob, name);
    }
  }
}

function isLink(path: string): boolean {
  return lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false;
}

/** The checksum under which a file's content is kept; undefined for a file that is no link to a blob. */
export function checksumOfLink(path: string): string | undefined {
  if (!isLink(path)) return undefined;
  const name = basename(readlinkSync(path));
  return /^([0-9a-f]{40}|[0-9a-f]{64})$/.test(name) ? name : undefined;
}

/** Models with files in the cache, by their repositories' names. */
export function cachedModels(cache: string): string[] {
  if (!existsSync(cache)) return [];
  const folders = readdirSync(cache, { withFileTypes: true }).filter((entry) => entry.isDirectory());
  const names = folders.flatMap(({ name }) => /^models--(.+)$/.exec(name)?.[1] ?? []);
  return names.map((name) => name.replace("--", "/")).sort();
}

/** Disk usage of a folder in bytes, links not followed. */
export function bytesIn(folder: string): number {
  if (!existsSync(folder)) return 0;
  const files = readdirSync(folder, { withFileTypes: true, recursive: true }).filter((entry) => entry.isFile());
  return files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0);
}

/** The first missing part of a file that is split into parts ("model-00002-of-00003.safetensors"). */
export function missingPart(paths: readonly string[]): string | undefined {
  const here = new Set(paths);
  for (const path of paths) {
    const match = /^(.*)\d{5}-of-(\d{5})(\.[\w.]+)$/.exec(path);
    if (!match) continue;
    const [, before, count = "", after] = match;
    const part = (number: number) => `${before}${String(number).padStart(5, "0")}-of-${count}${after}`;
    // Data sets count from 0, models from 1; accept both.
    const ends = [part(0), part(Number(count))];
    const between = Array.from({ length: Number(count) - 1 }, (_, index) => part(index + 1));
    const missing =
      between.find((name) => !here.has(name)) ?? (ends.some((name) => here.has(name)) ? undefined : ends[1]);
    if (missing) return missing;
  }
  return undefined;
}

/** @throws HoneError for a path that leads out of the cache */
export function checkPath(path: string): string {
  // A path that begins with a slash, or is empty, has an empty part.
  if (path.includes("\\") || path.split("/").some((part) => part === ".." || part === "")) {
    throw new HoneError(`the Hub lists a file ${JSON.stringify(path)}, which is no path within a repository`);
  }
  return path;
}
