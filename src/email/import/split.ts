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
class MessageSink implements Sink {
  readonly #name: string;
  readonly #queue: JobQueue;
  #parts: Buffer[] = [];
  #length = 0;

  constructor(name: string, queue: JobQueue) {
    this.#name = name;
    this.#queue = queue;
  }

  push(chunk: Buffer): void {
    this.#length += chunk.length;
    if (this.#length > MAX_MESSAGE_BYTES) this.#parts = [];
    else this.#parts.push(chunk);
  }

  end(): void {
    if (this.#length <= MAX_MESSAGE_BYTES) this.#queue.addMessage(this.#parts, this.#name);
    else this.#queue.add({ kind: "skipped", skipped: [{ reason: "too_large", fileName: this.#name }] });
  }
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
class ManySink implements Sink {
  readonly #kind: "mbox" | "jsonl";
  readonly #name: string;
  readonly #queue: JobQueue;
  #parts: Buffer[] = [];
  #length = 0;
  #enough = JOB_BYTES;
  /** Whether lines end with CR alone; told by the first of them. */
  #hasCr: boolean | undefined;
  /** Set inside a message that is too large: its bytes are dropped until the next one. */
  #dropping = false;

  constructor(kind: "mbox" | "jsonl", name: string, queue: JobQueue) {
    this.#kind = kind;
    this.#name = name;
    this.#queue = queue;
  }

  push(chunk: Buffer): void {
    this.#parts.push(chunk);
    this.#length += chunk.length;
    if (this.#length >= this.#enough) this.#cut(false);
  }

  end(): void {
    this.#cut(true);
  }

  /** Makes a job of the complete messages and keeps the rest. */
  #cut(atEnd: boolean): void {
    const bytes = Buffer.from(joined(this.#parts, this.#length).buffer);
    this.#hasCr ??= endsWithCr(bytes);
    if (this.#hasCr) crToLf(bytes);
    const { first, last } = borders[this.#kind];
    let start = 0;
    if (this.#dropping) {
      start = first(bytes, !atEnd);
      // A From line, and what follows it, may be split between two chunks.
      if (start === 0) {
        this.#keep(bytes.subarray(-KEPT_BYTES));
        return;
      }
      this.#dropping = false;
    }
    const whole = bytes.subarray(start);
    const border = atEnd ? whole.length : last(whole);
    if (border > 0 || atEnd) {
      this.#emit(whole.subarray(0, border));
      this.#keep(whole.subarray(border));
    } else if (whole.length > MAX_MESSAGE_BYTES) {
      this.#queue.add({ kind: "skipped", skipped: [{ reason: "too_large", fileName: this.#name }] });
      this.#dropping = true;
      this.#keep(whole.subarray(-KEPT_BYTES));
    } else {
      // Search again only after the size has doubled, so that a huge message takes linear time.
      this.#keep(whole);
      this.#enough = Math.min(whole.length * 2, MAX_MESSAGE_BYTES);
    }
  }

  #emit(bytes: Buffer): void {
    if (bytes.length > 0) this.#queue.add({ kind: this.#kind, bytes: new Uint8Array(bytes), name: this.#name });
  }

  #keep(rest: Buffer): void {
    this.#parts = rest.length > 0 ? [rest] : [];
    this.#length = rest.length;
    this.#enough = JOB_BYTES + rest.length;
  }
}

/** A file of unknown kind in an archive: detected first, then passed to the sink for its kind. */
export class FileSink implements Sink {
  readonly #name: string;
  readonly #queue: JobQueue;
  #head: Buffer[] = [];
  #headLength = 0;
  #sink: Sink | undefined;

  constructor(name: string, queue: JobQueue) {
    this.#name = name;
    this.#queue = queue;
  }

  push(chunk: Buffer): void {
    if (this.#sink) {
      this.#sink.push(chunk);
      return;
    }
    this.#head.push(chunk);
    this.#headLength += chunk.length;
    if (this.#headLength >= HEAD_BYTES) this.#open();
  }

  end(): void {
    (this.#sink ?? this.#open()).end();
  }

  #open(): Sink {
    const [only] = this.#head;
    const head = this.#head.length === 1 && only ? only : Buffer.concat(this.#head);
    this.#sink = sinkFor(recognise(head), this.#name, this.#queue);
    for (const part of this.#head) this.#sink.push(part);
    this.#head = [];
    return this.#sink;
  }
}

/** The sink for a file of known kind. A file without messages is counted as one that was skipped. */
export function sinkFor(kind: FileKind, name: string, queue: JobQueue): Sink {
  if (kind === "mbox" || kind === "jsonl") return new ManySink(kind, name, queue);
  // The worker reports what is wrong with it.
  if (kind === "message" || kind === "unknown") return new MessageSink(name, queue);
  queue.add({ kind: "skipped", skipped: [{ reason: "not_mail", fileName: name }] });
  return { push() {}, end() {} };
}
