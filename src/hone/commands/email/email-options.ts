/** Options that the email task's commands have of their own. */

import { ownOptions } from "../../../core/config/config.js";
import { choice, date, flag, inGroup, list, text, whole } from "../../../core/config/option.js";

const MANY = Number.MAX_SAFE_INTEGER;

export const mailOptions = ownOptions(
  inGroup("Mail to import", ["build-db"], {
    from: list("Mail to import: maildir folders, mbox files or folders, .tar or .tar.gz of either, JSONL, Parquet.", {
      defaultText: "a synthetic mailbox",
      first: ["build-db"],
    }),
    hf: flag("Import corbt/enron-emails and its questions from the Hub.", {
      default: false,
      first: ["build-db"],
    }),
    questions: list("Questions about the mail: JSONL or Parquet, in the form of corbt/enron_emails_sample_questions.", {
      defaultText: "none, or those of the Hub with --hf",
      first: ["build-db"],
    }),
    maxBody: whole(0, MANY, "Skip mails whose body has more characters than this; 0 keeps all.", {
      defaultText: "5000 with --hf (ART-E's rule), 0 with --from",
    }),
    maxRecipients: whole(0, MANY, "Skip mails with more recipients than this; 0 keeps all.", {
      defaultText: "30 with --hf (ART-E's rule), 0 with --from",
    }),
    oneEvidence: flag("Only questions whose answer is in exactly one mail.", {
      defaultText: "on with --hf (ART-E's rule), off with --from",
    }),
    mailboxes: whole(1, 100_000, "Synthetic mailboxes to make.", {
      default: 300,
      first: ["build-db"],
    }),
    names: choice(
      ["default", "reserved"],
      "Names in the mailboxes. reserved: those that no default mailbox has; every question is then for tests.",
      { default: "default", first: ["build-db"] },
    ),
  }),
);

export const toolOptions = ownOptions(
  inGroup("Tools by hand", ["search", "read"], {
    keywords: list("Words to search for, separated by commas."),
    fromAddr: text("Only mail from this address.", { accepts: "an address" }),
    toAddr: text("Only mail to this address.", { accepts: "an address" }),
    sentAfter: date("Only mail of this day or later."),
    sentBefore: date("Only mail of this day or earlier."),
    rank: choice(
      ["date", "bm25"],
      "Order of hits. date: with all keywords, newest first. bm25: with any, best match first.",
      { default: "date", commands: ["search"] },
    ),
    maxResults: whole(1, 10, "Number of hits at most.", { default: 10 }),
    id: text("Message id."),
  }),
);
