/** One mail as every importer delivers it and the database stores it. */
export interface Mail {
  /** As in the header, including angle brackets. Unique in the database. */
  messageId: string;
  /** Empty when there is none. */
  subject: string;
  /** Bare lower-case address; empty when there is none. */
  from: string;
  /** Bare lower-case addresses, in the order of the header, each once. */
  to: string[];
  cc: string[];
  bcc: string[];
  /** UTC, "YYYY-MM-DD HH:MM:SS"; undefined when the mail has no usable date. */
  date: string | undefined;
  /** Plain text, LF line ends. */
  body: string;
  /** Its source: a path, or an archive and the path in it. */
  fileName: string;
}
