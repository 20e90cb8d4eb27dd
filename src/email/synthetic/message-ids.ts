/**
 * Message ids of the synthetic world: two words, "acorn-badger". The first is unique in its mailbox, so a model that
 * has begun an id can complete it in only one way; the pair is unique in the world. Computed from the mailbox's index
 * alone: no list of ids is kept, and the number of mailboxes does not change them.
 */
import { Random } from "../../core/util/random.js";
import { idWords } from "./pools.js";

/** Maximum number of mails in a mailbox. */
export const MAX_MAILS = 30;

const mailboxesPerRow = idWords.first.length / MAX_MAILS;
const rowsOfTwoWords = idWords.second.length;

/**
 * The MAX_MAILS ids of one mailbox, in random order.
 *
 * Eight consecutive mailboxes share the 240 first words without repeating one; each first word has its own order of
 * second words, one for each group of eight. After 1,320 mailboxes this order is used up, and a third word
 * distinguishes the rounds: enough for 219,120 mailboxes.
 */
export function mailboxIds(seed: number, mailbox: number): string[] {
  const row = Math.floor(mailbox / mailboxesPerRow);
  const round = Math.floor(row / rowsOfTwoWords);
  const start = (mailbox % mailboxesPerRow) * MAX_MAILS;
  const firsts = new Random("id row", seed, row).shuffle(idWords.first).slice(start, start + MAX_MAILS);
  return firsts.map((first) => {
    const seconds = new Random("id word", seed, first).shuffle(idWords.second);
    const id = `${first}-${seconds[row % rowsOfTwoWords]}`;
    return round === 0 ? id : `${id}-${idWords.second[round - 1]}`;
  });
}
