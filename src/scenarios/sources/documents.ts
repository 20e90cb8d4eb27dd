/** Text files of a folder and all below it, in parts of a few paragraphs. Links are not followed. */
import { createReadStream, existsSync, readdirSync, statSync } from "node:fs";
import { extname, join, relative, sep } from "node:path";
import { convert } from "html-to-text";
import { UsageError } from "../../core/util/errors.js";
import { drawn } from "../../core/util/random.js";
import { cutText } from "../../core/util/text.js";
import { count, type Explored, FEWEST_CHARACTERS, PIECE_CHARACTERS, type Piece, type Source } from "../pieces.js";

/** Bytes of a file that are read at most. */
const MOST_BYTES = 4 << 20;
/** Folders that hold no documents. */
const PASSED_OVER = new Set(["node_modules"]);

/** Paths with "/" from the folder. */
function* filesBelow(folder: string, at = folder): Generator<string> {
  for (const entry of readdirSync(at, { withFileTypes: true })) {
    const path = join(at, entry.name);
    if (entry.name.startsWith(".")) continue;
    if (entry.isDirectory() && !PASSED_OVER.has(entry.name)) yield* filesBelow(folder, path);
    else if (entry.isFile()) yield relative(folder, path).split(sep).join("/");
  }
}

/** The text of a file; undefined where it is no text. */
async function textOf(file: string): Promise<string | undefined> {
  const chunks: Buffer[] = [];
  for await (const chunk of createReadStream(file, { end: MOST_BYTES - 1 })) chunks.push(chunk as Buffer);
  const bytes = Buffer.concat(chunks);
  if (bytes.includes(0)) return undefined;
  let text: string;
  try {
    // A character may be cut at the end of what is read.
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes, { stream: bytes.length === MOST_BYTES });
  } catch {
    return undefined;
  }
  return /^\.html?$/i.test(extname(file)) ? convert(text, { wordwrap: false }) : text;
}

/** Parts of whole paragraphs; a longer paragraph is cut. */
function partsOf(text: string): string[] {
  const parts: string[] = [];
  let part = "";
  const end = () => {
    if (part.trim().length >= FEWEST_CHARACTERS) parts.push(part.trim());
    part = "";
  };
  for (const paragraph of text.replace(/\r\n?/g, "\n").split(/\n\s*\n/)) {
    let rest = paragraph;
    while (rest.length > 0) {
      if (part.length + rest.length + 2 > PIECE_CHARACTERS && part !== "") end();
      const taken = cutText(rest, PIECE_CHARACTERS);
      part = part === "" ? taken : `${part}\n\n${taken}`;
      rest = rest.slice(taken.length);
    }
  }
  end();
  return parts;
}

export function documentSource(folder: string): Source {
  if (!existsSync(folder) || !statSync(folder).isDirectory()) {
    throw new UsageError(`--documents ${folder}: there is no such folder`);
  }
  return {
    kind: "documents",
    name: folder,
    unit: "parts of documents",
    async explore(most, seed, signal): Promise<Explored> {
      const skipped: Record<string, number> = {};
      const pieces: Piece[] = [];
      for (const path of drawn(filesBelow(folder), (one) => one, "piece", seed)) {
        if (pieces.length >= most) break;
        signal.throwIfAborted();
        const text = await textOf(join(folder, path));
        const parts = text === undefined ? [] : partsOf(text);
        if (text === undefined) count(skipped, "not_text");
        else if (parts.length === 0) count(skipped, "too_short");
        for (const [i, part] of parts.entries()) {
          const id = parts.length === 1 ? path : `${path}#${i + 1}`;
          pieces.push({ id, title: path, text: part, entity: path, known: "", fields: {} });
        }
      }
      return { pieces: pieces.slice(0, most), skipped };
    },
  };
}
