/** Splits a stream of bytes into messages or rows. */
import { type Found, MAX_MESSAGE_BYTES, type SkipReason } from "./found.js";
import { crToLf, endsWithCr, jsonRows, LF, textStart } from "./lines.js";
import { FROM_BYTES, firstMboxBoundary, mboxMessage } from "./mbox.js";
import { type FileKind, HEAD_BYTES, recognise } from "./recognise.js";

/** Bytes that are searched for boundaries at a time. */
const PART_BYTES = 1024 * 1024;
/** A From line, what follows it, and the line end and blank line before it. */
const KEPT_BYTES = FROM_BYTES + 16;

/** Takes bytes in order, then the end. Adds what it finds to a list. */
export interface Sink {
  push(chunk: Buffer): void;
  end(): void;
}

/** Position after the first of many messages or rows; 0 if it may go on in what follows. A file of another kind is one message. */
function firstEnd(kind: FileKind, bytes: Buffer, moreFollows: boolean): number {
  if (kind === "mbox") return firstMboxBoundary(bytes, moreFollows);
  return kind === "jsonl" ? bytes.indexOf(LF) + 1 : 0;
}

/**
 * The sink for a file. One without messages is counted as one that was skipped; whether one of no known kind is a message,
 * parsing tells.
 *
 * @param known its kind; default: the one of its first bytes
 */
export function sinkFor(name: string, found: Found[], known?: FileKind): Sink {
  let kind = known;
  let parts: Buffer[] = [];
  let length = 0;
  let enough = known === undefined ? HEAD_BYTES : PART_BYTES;
  /** Whether lines end with CR alone; told by the first of them. */
  let hasCr: boolean | undefined;
  /** Set inside a message that is too large: its bytes are dropped until the next one. */
  let dropping = false;

  function take(bytes: Buffer): void {
    if (kind === "jsonl") for (const values of jsonRows(bytes)) found.push({ kind: "row", values, name });
    else found.push({ kind: "message", bytes: kind === "mbox" ? mboxMessage(bytes) : bytes, name });
  }

  function keep(rest: Buffer): void {
    parts = rest.length > 0 ? [rest] : [];
    length = rest.length;
    enough = PART_BYTES + rest.length;
  }

  function drop(rest: Buffer, reason?: SkipReason): void {
    if (reason) found.push({ kind: "skipped", reason, name });
    dropping = true;
    // A From line, and what follows it, may be split between two chunks.
    keep(rest.subarray(-KEPT_BYTES));
  }

  /** Takes the complete messages and keeps the rest. */
  function cut(atEnd: boolean): void {
    let rest: Buffer = Buffer.concat(parts);
    kind ??= recognise(rest.subarray(0, HEAD_BYTES));
    const holdsMany = kind === "mbox" || kind === "jsonl";
    if (!holdsMany && kind !== "message" && kind !== "unknown") {
      drop(rest, dropping ? undefined : "not_mail");
      return;
    }
    if (holdsMany) {
      const isBeginning = hasCr === undefined;
      hasCr ??= endsWithCr(rest);
      if (hasCr) crToLf(rest);
      if (isBeginning) rest = rest.subarray(textStart(rest));
    }
    if (dropping) {
      const start = firstEnd(kind, rest, !atEnd);
      if (start === 0) {
        drop(rest);
        return;
      }
      dropping = false;
      rest = rest.subarray(start);
    }
    const whole = rest.length;
    for (let end = firstEnd(kind, rest, !atEnd); end > 0; end = firstEnd(kind, rest, !atEnd)) {
      take(rest.subarray(0, end));
      rest = rest.subarray(end);
    }
    if (atEnd) {
      if (rest.length > 0 || !holdsMany) take(rest);
    } else if (rest.length === whole && whole > MAX_MESSAGE_BYTES) {
      drop(rest, "too_large");
    } else {
      keep(rest);
      // Search again only after the size has doubled, so that a huge message takes linear time.
      if (rest.length === whole) enough = Math.min(whole * 2, MAX_MESSAGE_BYTES);
    }
  }

  return {
    push(chunk) {
      parts.push(chunk);
      length += chunk.length;
      if (length >= enough) cut(false);
    },
    end: () => cut(true),
  };
}
