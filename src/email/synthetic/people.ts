/**
 * The people of the synthetic world. Every pair of a first and a last name belongs to the training or the test
 * mailboxes, and there either to the owners of a mailbox or to the others. So no person is in both splits, and no owner
 * occurs in another mailbox.
 */

import type { Split } from "../../core/task/task.js";
import { Random } from "../../core/util/random.js";
import { type NameSet, pools } from "./pools.js";

export interface Person {
  readonly first: string;
  readonly last: string;
  /** "Wanda Ellis". */
  readonly name: string;
  readonly address: string;
}

export type Role = "owner" | "other";

/** A reserved domain (RFC 2606). */
const domain = "acme.example";

function person(first: string, last: string, number = 1): Person {
  const suffix = number === 1 ? "" : String(number);
  const address = `${first}.${last}${suffix}@${domain}`.toLowerCase();
  return { first, last, name: `${first} ${last}`, address };
}

/**
 * Twenty classes that cut across all names: each first name occurs with last names of every class. A fifth of the
 * people are in the test mailboxes, and about a quarter own one. Reserved names are in no training data, so all of them
 * may be tested.
 */
function place(names: NameSet, first: number, last: number): { split: Split; role: Role } {
  const group = (first * 7 + last * 11) % 20;
  if (names === "reserved") return { split: "test", role: group % 4 === 0 ? "owner" : "other" };
  if (group < 4) return { split: "test", role: group === 0 ? "owner" : "other" };
  return { split: "train", role: group < 8 ? "owner" : "other" };
}

/** All people of one split and role. */
export function everybody(names: NameSet, split: Split, role: Role): Person[] {
  const { first, last } = pools[names];
  return first.flatMap((given, i) =>
    last.flatMap((family, j) => {
      const at = place(names, i, j);
      return at.split === split && at.role === role ? [person(given, family)] : [];
    }),
  );
}

/** The owner of the n-th mailbox of a split: each person once, then namesakes with a number in their address. */
export function ownerOf(owners: readonly Person[], seed: number, split: Split, n: number): Person {
  const order = new Random("owners", seed, split).shuffle(owners);
  const owner = order[n % order.length] as Person;
  return person(owner.first, owner.last, Math.floor(n / order.length) + 1);
}

/** People who share no name with each other or with `owner`, so that a first name is unambiguous. */
export function acquaintances(others: readonly Person[], owner: Person, count: number, random: Random): Person[] {
  const taken = new Set([owner.first, owner.last]);
  const chosen: Person[] = [];
  while (chosen.length < count) {
    const candidate = random.pick(others);
    if (taken.has(candidate.first) || taken.has(candidate.last)) continue;
    taken.add(candidate.first).add(candidate.last);
    chosen.push(candidate);
  }
  return chosen;
}
