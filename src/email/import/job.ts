/**
 * Messages to and from the parse workers. The main thread only finds message boundaries; the bytes that it reads are
 * transferred, not copied.
 */
import type { Mail } from "../mail.js";

export type Job =
  /** Files of a folder; the worker reads them. */
  | { readonly kind: "files"; readonly paths: readonly string[] }
  /** Complete messages concatenated: the i-th ends at `ends[i]` and is named `names[i]`. */
  | {
      readonly kind: "messages";
      readonly bytes: Uint8Array<ArrayBuffer>;
      readonly ends: readonly number[];
      readonly names: readonly string[];
    }
  /** Complete messages of an mbox, or complete lines of JSON. */
  | { readonly kind: "mbox" | "jsonl"; readonly bytes: Uint8Array<ArrayBuffer>; readonly name: string }
  /** Rows `start` to `end` (exclusive) of a Parquet file. */
  | { readonly kind: "parquet"; readonly path: string; readonly start: number; readonly end: number }
  /** Messages that the main thread skipped. */
  | { readonly kind: "skipped"; readonly skipped: readonly Skipped[] };

/** Why a message is not imported. Stable names, since they are keys of the summary. */
export type SkipReason =
  /** The file cannot be opened or read. */
  | "unreadable"
  /** An empty file or message. */
  | "empty"
  /** Not mail: a picture, an index, JSON of another form. */
  | "not_mail"
  /** A row that is not a JSON object, or has fields of the wrong type. */
  | "bad_row"
  /** MIME that cannot be parsed. */
  | "bad_mime"
  /** Larger than {@link MAX_MESSAGE_BYTES}. */
  | "too_large"
  /** --max-body */
  | "body_too_long"
  /** --max-recipients */
  | "too_many_recipients";

export interface Skipped {
  readonly reason: SkipReason;
  readonly fileName: string;
}

/** The result of a job: `mails` and `skipped` together are the messages read. */
export interface Parsed {
  readonly mails: readonly Mail[];
  readonly skipped: readonly Skipped[];
  /** Files of a folder that hold many messages (mbox, archives, ...), to be opened one by one. */
  readonly containers: readonly string[];
  /** The error that ended the job early; the import has to end as well. */
  readonly failure?: string;
}

/** Limits on imported mails; 0 means no limit. */
export interface ImportRules {
  /** Length of the body in characters. */
  readonly maxBody: number;
  /** Number of different addresses in To, Cc and Bcc together. */
  readonly maxRecipients: number;
}

/** Maximum size of a message, which has to fit into memory. */
export const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;
