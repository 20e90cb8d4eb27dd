/**
 * Detects the kind of a file by its first bytes. Names do not help: mail comes as `1.`, `1_`, `Inbox`, `all.mbox` or
 * `x.dat`.
 */
import { textStart } from "./lines.js";
import { isMbox, knownField } from "./mbox.js";

export type FileKind = "gzip" | "tar" | "parquet" | "mbox" | "jsonl" | "message" | "unknown";

/** Number of bytes that {@link recognise} needs, if the file has as many. */
export const HEAD_BYTES = 4096;

/** @param head the first {@link HEAD_BYTES} of the file, or all of it when it is shorter */
export function recognise(head: Buffer): FileKind {
  if (head[0] === 0x1f && head[1] === 0x8b) return "gzip";
  if (head.toString("latin1", 0, 4) === "PAR1") return "parquet";
  if (head.toString("latin1", 257, 262) === "ustar") return "tar";
  if (isMbox(head)) return "mbox";
  const text = head.toString("latin1", textStart(head)).trimStart();
  if (/^\{\s*"/.test(text)) return "jsonl";
  if (knownField.test(text)) return "message";
  return "unknown";
}
