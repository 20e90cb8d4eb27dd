import type { Scenario } from "../core/task/task.js";

/** A question about one person's mailbox, with the mail that answers it. */
export interface EmailScenario extends Scenario {
  readonly answer: string;
  /** Evidence mails: one or more. Any id of a folded copy counts as the mail itself. */
  readonly message_ids: readonly string[];
  /** Owner of the searched mailbox: only mail that this address sent or received is visible. */
  readonly inbox_address: string;
  /** "YYYY-MM-DD": today's date for the model. Later mail is not visible. */
  readonly query_date: string;
  /** How realistic the question is, 0 to 1, when the data set says so. */
  readonly how_realistic?: number;
  /** Search words for a scripted expert. Never shown to a model. */
  readonly facts?: EmailFacts;
  /** That the prompt names address and date behind its tools (`--set inbox=question`). */
  readonly inbox?: "question";
}

/** The subject of a synthetic question, in the words of its mails. */
export interface EmailFacts {
  readonly project: string;
  readonly topic: string;
}
