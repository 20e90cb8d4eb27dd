/** Reads a tar archive that lies in parts, as hone packs it: ustar with pax's long names, files and links alone. */
import { createReadStream } from "node:fs";
import { mkdir, open, symlink, utimes } from "node:fs/promises";
import { dirname, join } from "node:path";

/** One line for people; anything else that is thrown is a defect. */
export class UnpackError extends Error {}

/** Bytes of the parts one after the other, as many at a time as are asked for. */
class Bytes {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(parts: readonly string[]) {
    this.#chunks = (async function* () {
      for (const part of parts) yield* createReadStream(part, { highWaterMark: 1 << 20 });
    })();
  }

  /** At least one byte, at most `most`. */
  async some(most: number): Promise<Buffer> {
    if (this.#rest.length === 0) {
      const { value, done } = await this.#chunks.next();
      if (done) throw new UnpackError("the parts end in the middle of a file: are they all of one pack?");
      this.#rest = value;
    }
    const taken = this.#rest.subarray(0, most);
    this.#rest = this.#rest.subarray(taken.length);
    return taken;
  }

  async exactly(count: number): Promise<Buffer> {
    const pieces: Buffer[] = [];
    for (let left = count; left > 0; left -= pieces.at(-1)?.length ?? 0) pieces.push(await this.some(left));
    return Buffer.concat(pieces);
  }
}

interface Entry {
  path: string;
  link: string;
  size: number;
  mode: number;
  /** Seconds since 1970. */
  time: number;
  type: string;
}

const RECORD = 512;
const padding = (size: number) => (RECORD - (size % RECORD)) % RECORD;

/** A header of ustar, which may continue in a record of pax before it; undefined at the archive's end. */
async function nextEntry(bytes: Bytes): Promise<Entry | undefined> {
  let extended: Record<string, string> = {};
  for (;;) {
    const head = await bytes.exactly(RECORD);
    if (head[0] === 0) return undefined;
    const text = (from: number, length: number) => head.toString("utf8", from, from + length).replace(/\0.*$/s, "");
    const number = (from: number, length: number) => {
      // Sizes beyond 8 GiB are binary, marked by the first bit.
      if ((head[from] as number) < 0x80) return Number.parseInt(text(from, length).trim() || "0", 8);
      return head.subarray(from + 1, from + length).reduce((sum, byte) => sum * 256 + byte, 0);
    };
    const size = number(124, 12);
    const type = text(156, 1);
    if (type !== "x") {
      const prefix = text(345, 155);
      return {
        path: extended.path ?? (prefix ? `${prefix}/${text(0, 100)}` : text(0, 100)),
        link: extended.linkpath ?? text(157, 100),
        ...{ size: extended.size === undefined ? size : Number(extended.size), type },
        ...{ mode: number(100, 8), time: number(136, 12) },
      };
    }
    const body = (await bytes.exactly(size)).toString("utf8");
    await bytes.exactly(padding(size));
    extended = Object.fromEntries(body.split("\n").flatMap((line) => [/^\d+ (\w+)=(.*)$/.exec(line)?.slice(1) ?? []]));
  }
}

/**
 * Writes the files and links of a tar archive into a folder.
 *
 * @param parts files that make it up
 * @returns how many there were
 */
export async function extract(
  parts: readonly string[],
  into: string,
  signal: AbortSignal | undefined,
): Promise<number> {
  const bytes = new Bytes(parts);
  const made = new Set<string>();
  for (let count = 0; ; count++) {
    const entry = await nextEntry(bytes);
    if (!entry) return count;
    const { path, link, size, mode, time, type } = entry;
    const inside = !path.startsWith("/") && !path.split("/").includes("..");
    if (!inside || !["0", "2"].includes(type)) throw new UnpackError(`the pack holds an entry that none has: ${path}`);
    const file = join(into, path);
    if (!made.has(dirname(file))) await mkdir(dirname(file), { recursive: true });
    made.add(dirname(file));
    if (type === "2") {
      await symlink(link, file);
      continue;
    }
    const handle = await open(file, "wx", mode);
    try {
      for (let left = size; left > 0; ) {
        signal?.throwIfAborted();
        const piece = await bytes.some(left);
        await handle.writeFile(piece);
        left -= piece.length;
      }
    } finally {
      await handle.close();
    }
    // How a converted model is called may depend on when its source was written.
    await utimes(file, time, time);
    await bytes.exactly(padding(size));
  }
}
