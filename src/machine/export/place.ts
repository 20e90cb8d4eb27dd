/**
 * The target folder of an export or a pack. It is written under a temporary name beside its place and renamed when
 * complete, so a folder with the final name is complete. A list of its files states its kind; --force may replace it.
 */
import { chmodSync, existsSync, mkdirSync, readdirSync, rmSync, statSync, writeFileSync } from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { HoneError, messageOf, UsageError } from "../../core/util/errors.js";
import { flush, moveDurably, removedAfter, sha256OfFile } from "../../core/util/files.js";
import { removeLeftovers } from "../pack/unpack.mjs";
import { freeBytes } from "../plan/machine.js";

export interface FolderKind {
  /** For messages: "export". */
  readonly name: string;
  /** File that lists the others with their checksums, and states the kind. */
  readonly list: string;
}

const EXPORT: FolderKind = { name: "export", list: "hone-export.json" };

const isThere = (folder: string) =>
  existsSync(folder) && !(statSync(folder).isDirectory() && readdirSync(folder).length === 0);

/** @throws UsageError when something exists there that must not be replaced */
export function checkPlace(folder: string, force: boolean, { name, list } = EXPORT): void {
  if (!isThere(folder)) return;
  if (!statSync(folder).isDirectory()) throw new UsageError(`--out ${folder} is a file; give the folder to make`);
  if (!existsSync(join(folder, list))) {
    throw new UsageError(`--out ${folder} holds something that is no ${name} (no ${list}); give another folder`);
  }
  if (!force) throw new UsageError(`--out ${folder} is an earlier ${name}; --force replaces it`);
}

/** What helps where its disk is too small. */
export const OUT_ELSEWHERE = "give --out on a larger disk";

/** The mode of a new file: safetensors writes files for their owner alone, and a copy keeps the mode of its source. */
function readable(file: string): void {
  const programs = statSync(file).mode & 0o111 ? 0o777 : 0o666;
  chmodSync(file, programs & ~process.umask());
}

/** Messages about a full disk from libraries without an error code. */
const FULL = /No space left|ENOSPC|Disk quota|requested and \d+ written|iostream error|File too large/i;
/** Free bytes below which the disk counts as full. */
const NOTHING = 1 << 20;

/** @param write fills the folder and returns the facts for the list of files */
export async function writeFolder(
  place: string,
  force: boolean,
  write: (draft: string) => Promise<object>,
  kind = EXPORT,
): Promise<string[]> {
  const folder = resolve(place);
  checkPlace(folder, force, kind);
  mkdirSync(dirname(folder), { recursive: true });
  await removeLeftovers(folder);
  const aside = (kind: string) => join(dirname(folder), `.${basename(folder)}.${process.pid}.${kind}`);
  const draft = aside("part");
  using _draft = removedAfter(draft);
  rmSync(draft, { recursive: true, force: true });
  mkdirSync(draft);
  try {
    const about = await write(draft);
    const files = readdirSync(draft).sort();
    const list: Record<string, { sha256: string; bytes: number }> = {};
    for (const name of files) {
      const file = join(draft, name);
      list[name] = { sha256: await sha256OfFile(file), bytes: statSync(file).size };
    }
    writeFileSync(join(draft, kind.list), `${JSON.stringify({ ...about, files: list }, null, 2)}\n`);
    for (const name of [...files, kind.list]) {
      readable(join(draft, name));
      flush(join(draft, name));
    }
    flush(draft);
    replace(folder, draft, aside("old"), force, kind);
    return [...files, kind.list];
  } catch (error) {
    // A HoneError already has a message of its own.
    const full = FULL.test(messageOf(error)) || (!(error instanceof HoneError) && freeBytes(dirname(folder)) < NOTHING);
    if (!full) throw error;
    throw new HoneError(
      `the disk filled up during the ${kind.name} to ${folder}; free some space, or give another --out`,
      {
        cause: error,
      },
    );
  }
}

function replace(folder: string, draft: string, old: string, force: boolean, kind: FolderKind): void {
  // Another process may have created it in the meantime.
  checkPlace(folder, force, kind);
  const before = isThere(folder);
  if (before) moveDurably(folder, old);
  moveDurably(draft, folder);
  if (before) rmSync(old, { recursive: true, force: true });
}
