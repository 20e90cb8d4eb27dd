/** Files and links as one tar archive in parts of a size. */
import { createReadStream, lstatSync } from "node:fs";
import { type FileHandle, open } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { pack } from "tar-stream";

/** An entry of the archive by its path: a local file, a text, or a link. */
export type Entry = { readonly path: string; readonly executable?: boolean } & (
  | { readonly file: string }
  | { readonly text: string }
  | { readonly link: string }
);

export const bytesOf = (entry: Entry) =>
  "file" in entry ? lstatSync(entry.file).size : "text" in entry ? Buffer.byteLength(entry.text) : 0;

/** Bytes of the archive, at most: headers and padding with each file. */
export const archiveBytes = (entries: readonly Entry[]) =>
  entries.reduce((sum, entry) => sum + bytesOf(entry) + 4 * 512, 1024);

/** Writes into files of at most `most` bytes. */
class Parts {
  readonly names: string[] = [];
  #file: FileHandle | undefined;
  #left = 0;

  constructor(
    readonly folder: string,
    readonly name: string,
    readonly most: number,
  ) {}

  async write(chunk: Buffer): Promise<void> {
    for (let rest = chunk; rest.length > 0; ) {
      if (this.#left === 0) await this.#next();
      const piece = rest.subarray(0, this.#left);
      await (this.#file as FileHandle).writeFile(piece);
      this.#left -= piece.length;
      rest = rest.subarray(piece.length);
    }
  }

  async #next(): Promise<void> {
    await this.close();
    const name = `${this.name}.part-${String(this.names.length + 1).padStart(3, "0")}`;
    this.#file = await open(join(this.folder, name), "wx");
    this.#left = this.most;
    this.names.push(name);
  }

  async close(): Promise<void> {
    await this.#file?.close();
    this.#file = undefined;
  }
}

/** @returns names of the parts, in their order */
export async function writeParts(
  entries: readonly Entry[],
  folder: string,
  name: string,
  most: number,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const archive = pack();
  const parts = new Parts(folder, name, most);
  const fill = async () => {
    for (const entry of entries) {
      signal?.throwIfAborted();
      await add(archive, entry);
    }
    archive.finalize();
  };
  const filled = fill().catch((error: Error) => {
    archive.destroy(error);
  });
  try {
    for await (const chunk of archive) await parts.write(chunk as Buffer);
    await filled;
  } finally {
    await parts.close();
  }
  return parts.names;
}

const modeOf = (executable: boolean) => (executable ? 0o755 : 0o644);

async function add(archive: ReturnType<typeof pack>, entry: Entry): Promise<void> {
  const { path, executable = false } = entry;
  if ("link" in entry) {
    await new Promise<void>((resolve, reject) => {
      archive.entry({ name: path, type: "symlink", linkname: entry.link }, (error) =>
        error ? reject(error) : resolve(),
      );
    });
    return;
  }
  if ("text" in entry) {
    await new Promise<void>((resolve, reject) => {
      archive.entry({ name: path, mode: modeOf(executable) }, entry.text, (error) =>
        error ? reject(error) : resolve(),
      );
    });
    return;
  }
  const { size, mtime, mode: here } = lstatSync(entry.file);
  const mode = modeOf(executable || (here & 0o111) !== 0);
  const source = createReadStream(entry.file, { highWaterMark: 1 << 20 });
  await pipeline(source, archive.entry({ name: path, size, mode, mtime }));
}
