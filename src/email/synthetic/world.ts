/** The synthetic world: a sequence of mailboxes, the same for the same seed. */

import type { Split } from "../../core/task/task.js";
import { Random } from "../../core/util/random.js";
import type { Mail } from "../mail.js";
import type { EmailScenario } from "../scenario.js";
import { writeMailbox } from "./mailbox.js";
import { mailboxIds } from "./message-ids.js";
import { everybody, ownerOf } from "./people.js";
import { type NameSet, pools } from "./pools.js";

export interface WorldOptions {
  readonly seed: number;
  readonly mailboxes: number;
  /** "reserved": names that occur in no default world; all its questions are test questions. */
  readonly names?: NameSet;
}

export interface Mailbox {
  /** In order of time. */
  readonly mails: Mail[];
  /** Ten questions, two of each kind. */
  readonly scenarios: EmailScenario[];
}

/** Every fifth mailbox is for testing, starting with the second. */
const TEST_EVERY = 5;

/**
 * Generates mailboxes. A mailbox depends on the seed and its place alone, not on how many follow.
 *
 * Message ids and owners are unique in one world, not between worlds: give each world its own database.
 */
export function* syntheticWorld({ seed, mailboxes, names = "default" }: WorldOptions): Generator<Mailbox> {
  const people = (split: Split) => ({
    owners: everybody(names, split, "owner"),
    others: everybody(names, split, "other"),
    count: 0,
  });
  const population = { train: people("train"), test: people("test") };
  for (let mailbox = 0; mailbox < mailboxes; mailbox++) {
    const split: Split = names === "reserved" || mailbox % TEST_EVERY === 1 ? "test" : "train";
    const { owners, others, count } = population[split];
    const plan = {
      split,
      owner: ownerOf(owners, seed, split, count),
      others,
      pool: pools[names],
      ids: mailboxIds(seed, mailbox),
      name: `${names === "reserved" ? "r" : "s"}${seed}-m${mailbox}`,
    };
    population[split].count++;
    yield writeMailbox(plan, new Random("mailbox", names, seed, mailbox));
  }
}
