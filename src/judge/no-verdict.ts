/** Why a question has no usable answer. */

/** Causes of a missing verdict; counters have these names. */
export type NoVerdictReason =
  /** The server's, repeatedly. */
  | "rate_limited"
  | "server_error"
  | "timeout"
  | "connection"
  | "bad_response"
  /** The question's. */
  | "too_long"
  | "bad_request"
  /** The judge's answer, also after one correction. */
  | "refused"
  | "cut"
  /** Several judges have no majority. */
  | "divided"
  | "not_json"
  | "no_scores"
  | "wrong_count"
  | "unknown_id"
  | "repeated_id"
  | "out_of_range"
  | "wrong_form";

/** One answer and its error. */
export interface Exchange {
  readonly answer: string;
  readonly problem: string | undefined;
  /** Dollars; null where the price is not known. */
  readonly cost: number | null;
}

/** A question without a usable answer. */
export class NoVerdict extends Error {
  override readonly name = "NoVerdict";
  /** What the judge has answered nevertheless. */
  exchanges: readonly Exchange[] = [];

  constructor(
    readonly reason: NoVerdictReason,
    message: string,
  ) {
    super(message);
  }
}
