/** Mails of a mail database, each with the person who asks about it and the day of asking. */

import { HoneError } from "../../core/util/errors.js";
import { deriveSeed, drawn } from "../../core/util/random.js";
import { cutText } from "../../core/util/text.js";
import { type MailDatabase, type MailHeader, openMailDatabase } from "../../email/reader.js";
import { count, type Explored, FEWEST_CHARACTERS, PIECE_CHARACTERS, type Piece, type Source } from "../pieces.js";

/** Days after a mail within which it is asked about. */
const LATEST = 30;

/** "RE: FW: budget" is of the thread "budget". */
const threadOf = ({ subject, messageId }: MailHeader) => {
  const bare = subject
    .replace(/^(?:\s*(?:re|fwd?|aw|wg|sv|tr)\s*(?:\[\d+\])?:)+/i, "")
    .trim()
    .toLowerCase();
  return bare === "" ? messageId : bare;
};

const dayAfter = (day: string, days: number) =>
  new Date(Date.parse(`${day}T00:00:00Z`) + days * 86_400_000).toISOString().slice(0, 10);

/** Mails that each address has sent or received. */
function countsOf(headers: Iterable<MailHeader>): Map<string, number> {
  const counts = new Map<string, number>();
  for (const { people } of headers) for (const one of people) counts.set(one, (counts.get(one) ?? 0) + 1);
  return counts;
}

/**
 * @param inbox whose mail alone is asked about; undefined: of each mail's people the one with the most mail asks
 */
export function mailSource(file: string, inbox: string | undefined): Source {
  return {
    kind: "mail",
    name: file,
    unit: "mails",
    async explore(most, seed): Promise<Explored> {
      using mail = openMailDatabase(file);
      const counts = countsOf(mail.headers());
      const of = inbox?.toLowerCase();
      if (of !== undefined && !counts.has(of))
        throw new HoneError(`--inbox ${inbox}: nobody of that address has mail in ${file}`);
      const asker = ({ people }: MailHeader) =>
        of ?? [...people].sort((a, b) => (counts.get(b) as number) - (counts.get(a) as number) || (a < b ? -1 : 1))[0];
      return readPieces(mail, most, seed, of, asker);
    },
  };
}

function readPieces(
  mail: MailDatabase,
  most: number,
  seed: number,
  of: string | undefined,
  asker: (header: MailHeader) => string | undefined,
): Explored {
  const skipped: Record<string, number> = {};
  function* usable(): Generator<MailHeader> {
    for (const header of mail.headers()) {
      if (of !== undefined && !header.people.includes(of)) continue;
      // Without a date a mail is seen on no day, without people by nobody.
      if (header.date === undefined) count(skipped, "without_date");
      else if (header.people.length === 0) count(skipped, "without_people");
      else yield header;
    }
  }
  const pieces: Piece[] = [];
  // Some have nothing but a signature.
  for (const header of drawn(usable(), ({ messageId }) => messageId, "piece", seed)) {
    if (pieces.length >= most) break;
    const inbox = asker(header) as string;
    const found = mail.read({ inbox }, header.messageId);
    if (!found || found.body.trim().length < FEWEST_CHARACTERS) {
      count(skipped, "too_short");
      continue;
    }
    const sent = (header.date as string).slice(0, 10);
    const today = dayAfter(sent, deriveSeed("day", seed, header.messageId) % (LATEST + 1));
    const head = `From: ${found.from}\nTo: ${cutText(found.to.join(", "), 500)}\nDate: ${found.date}\nSubject: ${found.subject}\n\n`;
    pieces.push({
      id: found.messageId,
      title: found.subject,
      text: cutText(`${head}${found.body.trim()}`, PIECE_CHARACTERS),
      entity: threadOf(header),
      known: `The owner of the mailbox ${inbox}, on ${today}.`,
      fields: { message_ids: [found.messageId], inbox_address: inbox, query_date: today },
    });
  }
  return { pieces, skipped };
}
