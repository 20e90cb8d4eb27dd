import type { Scenario } from "../task.js";

/** A question about one person's mailbox, with the mail that answers it. */
export interface EmailScenario extends Scenario {
  readonly answer: string;
  /** Mails that hold the answer: one or more. Any id of a folded copy counts as the mail itself. */
  readonly message_ids: readonly string[];
  /** Whose mailbox is searched: only mail this address sent or received is visible. */
  readonly inbox_address: string;
  /** "YYYY-MM-DD": today, for the model. No mail of a later day is visible. */
  readonly query_date: string;
  /** How realistic the question is, 0 to 1, when the data set says so. */
  readonly how_realistic?: number;
  /** What a scripted expert may know beforehand: the words that find the answer. Never shown to a model. */
  readonly facts?: EmailFacts;
}

/** What a generated question is about, in the words of its mails. */
export interface EmailFacts {
  readonly project: string;
  readonly topic: string;
}
