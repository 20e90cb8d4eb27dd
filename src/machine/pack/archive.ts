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

/**
 * @param most bytes of a part
 * @returns names of the parts, in their order
 */
export async function writeParts(
  entries: readonly Entry[],
  folder: string,
  name: string,
  most: number,
  signal: AbortSignal | undefined,
): Promise<string[]> {
  const archive = pack();
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
  const names: string[] = [];
  let part: FileHandle | undefined;
  let left = 0;
  try {
    for await (const chunk of archive) {
      for (let rest = chunk as Buffer; rest.length > 0; ) {
        if (!part || left === 0) {
          await part?.close();
          names.push(`${name}.part-${String(names.length + 1).padStart(3, "0")}`);
          part = await open(join(folder, names.at(-1) as string), "wx");
          left = most;
        }
        const piece = rest.subarray(0, left);
        await part.writeFile(piece);
        left -= piece.length;
        rest = rest.subarray(piece.length);
      }
    }
    await filled;
  } finally {
    await part?.close();
  }
  return names;
}

const modeOf = (executable: boolean) => (executable ? 0o755 : 0o644);

async function add(archive: ReturnType<typeof pack>, entry: Entry): Promise<void> {
  const { path, executable = false } = entry;
  if (!("file" in entry)) {
    const [header, content] =
      "link" in entry
        ? [{ name: path, type: "symlink", linkname: entry.link } as const, ""]
        : [{ name: path, mode: modeOf(executable) }, entry.text];
    await new Promise<void>((resolve, reject) => {
      archive.entry(header, content, (error) => (error ? reject(error) : resolve()));
    });
    return;
  }
  const { size, mtime, mode: here } = lstatSync(entry.file);
  const mode = modeOf(executable || (here & 0o111) !== 0);
  const source = createReadStream(entry.file, { highWaterMark: 1 << 20 });
  await pipeline(source, archive.entry({ name: path, size, mode, mtime }));
}
