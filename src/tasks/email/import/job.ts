/**
 * What is sent to the parse workers and what comes back. The main thread only finds out where messages begin and end;
 * all bytes it read travel by transfer, not by copy.
 */
import type { Mail } from "../mail.js";

export type Job =
  /** Files of a folder; the worker reads them. */
  | { readonly kind: "files"; readonly paths: readonly string[] }
  /** Whole messages one behind the other: the i-th ends at `ends[i]` and is called `names[i]`. */
  | {
      readonly kind: "messages";
      readonly bytes: Uint8Array<ArrayBuffer>;
      readonly ends: readonly number[];
      readonly names: readonly string[];
    }
  /** Whole messages of an mbox, or whole lines of JSON. */
  | { readonly kind: "mbox" | "jsonl"; readonly bytes: Uint8Array<ArrayBuffer>; readonly name: string }
  /** Rows `start` to `end` (not included) of a Parquet file. */
  | { readonly kind: "parquet"; readonly path: string; readonly start: number; readonly end: number }
  /** What the main thread itself could not take. */
  | { readonly kind: "skipped"; readonly skipped: readonly Skipped[] };

/** Why a message is not imported. Stable names: they are keys of the summary. */
export type SkipReason =
  /** The file cannot be opened or read. */
  | "unreadable"
  /** Nothing in it. */
  | "empty"
  /** Something else than mail: a picture, an index, JSON of another form. */
  | "not_mail"
  /** A row that is no JSON object, or whose fields are of other types than they should be. */
  | "bad_row"
  /** MIME that no parser can follow. */
  | "bad_mime"
  /** More than {@link MAX_MESSAGE_BYTES}. */
  | "too_large"
  /** --max-body */
  | "body_too_long"
  /** --max-recipients */
  | "too_many_recipients";

export interface Skipped {
  readonly reason: SkipReason;
  readonly fileName: string;
}

/** What became of one job: `mails` and `skipped` together are what was read. */
export interface Parsed {
  readonly mails: readonly Mail[];
  readonly skipped: readonly Skipped[];
  /** Files of a folder that hold many messages (mbox, archives, ...): not read yet, to be opened one by one. */
  readonly containers: readonly string[];
  /** What ended the job early, in words for the user: the rest of it is lost, so the import has to end. */
  readonly failure?: string;
}

/** Which mails to leave out. 0 keeps all. */
export interface ImportRules {
  /** Characters. */
  readonly maxBody: number;
  /** Different addresses in To, Cc and Bcc together. */
  readonly maxRecipients: number;
}

/** One message at most; more is no mail that anybody reads, and has to fit into memory whole. */
export const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;
