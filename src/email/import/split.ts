/** Splits a stream of bytes into messages or rows. */
import { type Found, MAX_MESSAGE_BYTES } from "./found.js";
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

/** A file that is one message. */
function messageSink(name: string, found: Found[]): Sink {
  let parts: Buffer[] = [];
  let length = 0;
  return {
    push(chunk) {
      length += chunk.length;
      if (length > MAX_MESSAGE_BYTES) parts = [];
      else parts.push(chunk);
    },
    end() {
      if (length <= MAX_MESSAGE_BYTES) found.push({ kind: "message", bytes: Buffer.concat(parts), name });
      else found.push({ kind: "skipped", reason: "too_large", name });
    },
  };
}

/** Many messages in one stream: an mbox, or JSON lines. */
function manySink(kind: "mbox" | "jsonl", name: string, found: Found[]): Sink {
  /** Position after the first item; 0 if it may go on in what follows. */
  const first = kind === "mbox" ? firstMboxBoundary : (bytes: Buffer) => bytes.indexOf(LF) + 1;
  let parts: Buffer[] = [];
  let length = 0;
  let enough = PART_BYTES;
  /** Whether lines end with CR alone; told by the first of them. */
  let hasCr: boolean | undefined;
  /** Set inside a message that is too large: its bytes are dropped until the next one. */
  let dropping = false;

  function take(bytes: Buffer): void {
    if (kind === "mbox") found.push({ kind: "message", bytes: mboxMessage(bytes), name });
    else for (const values of jsonRows(bytes)) found.push({ kind: "row", values, name });
  }

  function keep(rest: Buffer): void {
    parts = rest.length > 0 ? [rest] : [];
    length = rest.length;
    enough = PART_BYTES + rest.length;
  }

  /** Takes the complete messages and keeps the rest. */
  function cut(atEnd: boolean): void {
    let rest: Buffer = Buffer.concat(parts);
    const isBeginning = hasCr === undefined;
    hasCr ??= endsWithCr(rest);
    if (hasCr) crToLf(rest);
    if (isBeginning) rest = rest.subarray(textStart(rest));
    if (dropping) {
      const start = first(rest, !atEnd);
      // A From line, and what follows it, may be split between two chunks.
      if (start === 0) {
        keep(rest.subarray(-KEPT_BYTES));
        return;
      }
      dropping = false;
      rest = rest.subarray(start);
    }
    const whole = rest.length;
    for (let end = first(rest, !atEnd); end > 0; end = first(rest, !atEnd)) {
      take(rest.subarray(0, end));
      rest = rest.subarray(end);
    }
    if (atEnd) {
      if (rest.length > 0) take(rest);
    } else if (rest.length < whole) {
      keep(rest);
    } else if (whole > MAX_MESSAGE_BYTES) {
      found.push({ kind: "skipped", reason: "too_large", name });
      dropping = true;
      keep(rest.subarray(-KEPT_BYTES));
    } else {
      // Search again only after the size has doubled, so that a huge message takes linear time.
      keep(rest);
      enough = Math.min(whole * 2, MAX_MESSAGE_BYTES);
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

/** A file of unknown kind in an archive: detected first, then passed to the sink for its kind. */
export function fileSink(name: string, found: Found[]): Sink {
  const head: Buffer[] = [];
  let length = 0;
  let sink: Sink | undefined;

  function open(): Sink {
    sink = sinkFor(recognise(Buffer.concat(head)), name, found);
    for (const part of head.splice(0)) sink.push(part);
    return sink;
  }

  return {
    push(chunk) {
      if (sink) {
        sink.push(chunk);
        return;
      }
      head.push(chunk);
      length += chunk.length;
      if (length >= HEAD_BYTES) open();
    },
    end: () => (sink ?? open()).end(),
  };
}

/** The sink for a file of known kind. A file without messages is counted as one that was skipped. */
export function sinkFor(kind: FileKind, name: string, found: Found[]): Sink {
  if (kind === "mbox" || kind === "jsonl") return manySink(kind, name, found);
  // Parsing tells what is wrong with it.
  if (kind === "message" || kind === "unknown") return messageSink(name, found);
  found.push({ kind: "skipped", reason: "not_mail", name });
  return { push() {}, end() {} };
}
