/**
 * Splits a stream of bytes into jobs of about a megabyte at message boundaries. Nothing is decoded here, since this
 * runs on the main thread, which also writes the database.
 */
import { type Job, MAX_MESSAGE_BYTES } from "./job.js";
import { crToLf, endsWithCr, LF } from "./lines.js";
import { FROM_BYTES, firstMboxBoundary, lastMboxBoundary } from "./mbox.js";
import { type FileKind, HEAD_BYTES, recognise } from "./recognise.js";

const JOB_BYTES = 1024 * 1024;
const JOB_MESSAGES = 500;
/** A From line, what follows it, and the line end and blank line before it. */
const KEPT_BYTES = FROM_BYTES + 16;

/** Takes bytes in order, then the end. Adds jobs to its {@link JobQueue}. */
export interface Sink {
  push(chunk: Buffer): void;
  end(): void;
}

/** In a buffer of their own, as it goes to another thread. */
function joined(parts: readonly Buffer[], length: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  let offset = 0;
  for (const part of parts) {
    bytes.set(part, offset);
    offset += part.length;
  }
  return bytes;
}

/** Finished jobs, and single messages waiting to be combined into one. */
export class JobQueue {
  #ready: Job[] = [];
  #parts: Buffer[] = [];
  #ends: number[] = [];
  #names: string[] = [];
  #length = 0;

  add(job: Job): void {
    this.#ready.push(job);
  }

  addMessage(parts: readonly Buffer[], name: string): void {
    for (const part of parts) {
      this.#parts.push(part);
      this.#length += part.length;
    }
    this.#ends.push(this.#length);
    this.#names.push(name);
    if (this.#length >= JOB_BYTES || this.#names.length >= JOB_MESSAGES) this.flush();
  }

  /** Makes a job of the waiting messages. */
  flush(): void {
    if (this.#names.length === 0) return;
    const bytes = joined(this.#parts, this.#length);
    this.#ready.push({ kind: "messages", bytes, ends: this.#ends, names: this.#names });
    this.#parts = [];
    this.#ends = [];
    this.#names = [];
    this.#length = 0;
  }

  /** Removes and returns the finished jobs. */
  take(): Job[] {
    const ready = this.#ready;
    this.#ready = [];
    return ready;
  }
}

/** A file that is one message. */
function messageSink(name: string, queue: JobQueue): Sink {
  let parts: Buffer[] = [];
  let length = 0;
  return {
    push(chunk) {
      length += chunk.length;
      if (length > MAX_MESSAGE_BYTES) parts = [];
      else parts.push(chunk);
    },
    end() {
      if (length <= MAX_MESSAGE_BYTES) queue.addMessage(parts, name);
      else queue.add({ kind: "skipped", skipped: [{ reason: "too_large", fileName: name }] });
    },
  };
}

/** Position of the first and of the last boundary between items, after the start; 0 if there is none. */
const borders = {
  mbox: { first: firstMboxBoundary, last: lastMboxBoundary },
  jsonl: {
    first: (bytes: Buffer, _moreFollows: boolean) => bytes.indexOf(LF) + 1,
    last: (bytes: Buffer) => bytes.lastIndexOf(LF) + 1,
  },
};

/** Many messages in one stream: an mbox, or JSON lines. */
function manySink(kind: "mbox" | "jsonl", name: string, queue: JobQueue): Sink {
  const { first, last } = borders[kind];
  let parts: Buffer[] = [];
  let length = 0;
  let enough = JOB_BYTES;
  /** Whether lines end with CR alone; told by the first of them. */
  let hasCr: boolean | undefined;
  /** Set inside a message that is too large: its bytes are dropped until the next one. */
  let dropping = false;

  function keep(rest: Buffer): void {
    parts = rest.length > 0 ? [rest] : [];
    length = rest.length;
    enough = JOB_BYTES + rest.length;
  }

  /** Makes a job of the complete messages and keeps the rest. */
  function cut(atEnd: boolean): void {
    const bytes = Buffer.from(joined(parts, length).buffer);
    hasCr ??= endsWithCr(bytes);
    if (hasCr) crToLf(bytes);
    let start = 0;
    if (dropping) {
      start = first(bytes, !atEnd);
      // A From line, and what follows it, may be split between two chunks.
      if (start === 0) {
        keep(bytes.subarray(-KEPT_BYTES));
        return;
      }
      dropping = false;
    }
    const whole = bytes.subarray(start);
    const border = atEnd ? whole.length : last(whole);
    if (border > 0 || atEnd) {
      if (border > 0) queue.add({ kind, bytes: new Uint8Array(whole.subarray(0, border)), name });
      keep(whole.subarray(border));
    } else if (whole.length > MAX_MESSAGE_BYTES) {
      queue.add({ kind: "skipped", skipped: [{ reason: "too_large", fileName: name }] });
      dropping = true;
      keep(whole.subarray(-KEPT_BYTES));
    } else {
      // Search again only after the size has doubled, so that a huge message takes linear time.
      keep(whole);
      enough = Math.min(whole.length * 2, MAX_MESSAGE_BYTES);
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
export function fileSink(name: string, queue: JobQueue): Sink {
  const head: Buffer[] = [];
  let length = 0;
  let sink: Sink | undefined;

  function open(): Sink {
    sink = sinkFor(recognise(Buffer.concat(head)), name, queue);
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
export function sinkFor(kind: FileKind, name: string, queue: JobQueue): Sink {
  if (kind === "mbox" || kind === "jsonl") return manySink(kind, name, queue);
  // The worker reports what is wrong with it.
  if (kind === "message" || kind === "unknown") return messageSink(name, queue);
  queue.add({ kind: "skipped", skipped: [{ reason: "not_mail", fileName: name }] });
  return { push() {}, end() {} };
}
