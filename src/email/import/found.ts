/** What is found in the sources of mail. */

/** What is to be parsed, in the order of the source, or was skipped. */
export type Found =
  /** The bytes of one message. */
  | { readonly kind: "message"; readonly bytes: Buffer; readonly name: string }
  /** A line of JSON, or a row of a Parquet file. */
  | { readonly kind: "row"; readonly values: unknown; readonly name: string }
  | Skipped;

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

/** Counted, with the name of its file. */
export interface Skipped {
  readonly kind: "skipped";
  readonly reason: SkipReason;
  readonly name: string;
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
