/**
 * Measures whether the tools find the evidence of questions: for each question of a database, whether its evidence is
 * among the ten hits of a search for the question's words in the asker's inbox, up to the question's date. This
 * measures the tools, not an agent, which chooses its words.
 *
 * Words are the question's runs of letters, digits and apostrophes, lower-cased, without function words.
 */

import { type MailDatabase, openMailDatabase } from "../../src/email/reader.js";
import type { EmailScenario } from "../../src/email/scenario.js";
import type { MailQuery } from "../../src/email/search.js";

const functionWords = new Set(
  `a about am an and any are as at be been being but by can could did do does doing done for from had has have having he
   her his how i if in into is it its may me might my no not of on or our shall she should than that the their them then
   there these they this those to us was we were what when where which who whom whose why will with would you your
   many much`.split(/\s+/),
);

export function wordsOf(question: string): string[] {
  const words = question.toLowerCase().match(/[\p{L}\p{N}']+/gu) ?? [];
  return [...new Set(words.filter((word) => !functionWords.has(word)))];
}

/** Number of questions whose evidence is found, of `questions`. */
export interface SearchQuality {
  questions: number;
  /** Number of questions whose asker may read evidence at all. */
  readable: number;
  all_words: number;
  /** Found by one, two or three of the words, with the best choice of words. */
  best_words: number;
  any_word_bm25: number;
  any_word_newest: number;
}

function* choices(words: readonly string[]): Generator<string[]> {
  for (const a of words) yield [a];
  for (const [i, a] of words.entries()) for (const b of words.slice(i + 1)) yield [a, b];
  for (const [i, a] of words.entries()) {
    for (const [j, b] of words.entries()) if (j > i) for (const c of words.slice(j + 1)) yield [a, b, c];
  }
}

class Asked {
  readonly words: string[];
  readonly #viewer;
  readonly #evidence: Set<string | undefined>;

  constructor(
    readonly mail: MailDatabase,
    readonly scenario: EmailScenario,
  ) {
    this.words = wordsOf(scenario.question);
    this.#viewer = { inbox: scenario.inbox_address, today: scenario.query_date };
    this.#evidence = new Set(scenario.message_ids.map((id) => mail.resolveId(id)));
  }

  get isReadable(): boolean {
    return this.scenario.message_ids.some((id) => this.mail.read(this.#viewer, id) !== undefined);
  }

  finds(query: MailQuery): boolean {
    return this.mail.search(this.#viewer, query).some((hit) => this.#evidence.has(hit.messageId));
  }

  /** The ten newest of all mails with any of the words are among the ten newest of each word. */
  get findsNewest(): boolean {
    const hits = this.words.flatMap((word) => this.mail.search(this.#viewer, { keywords: [word] }));
    const dates = new Map(hits.map(({ messageId, date = "" }) => [messageId, date]));
    const newest = [...dates].sort(([, a], [, b]) => (a < b ? 1 : -1)).slice(0, 10);
    return newest.some(([id]) => this.#evidence.has(id));
  }

  get findsWithBestWords(): boolean {
    for (const keywords of choices(this.words)) if (this.finds({ keywords })) return true;
    return false;
  }
}

export function measureSearchQuality(db: string): SearchQuality {
  const mail = openMailDatabase(db);
  try {
    const asked = mail.scenarios().map((scenario) => new Asked(mail, scenario));
    const count = (found: (one: Asked) => boolean) => asked.filter(found).length;
    return {
      questions: asked.length,
      readable: count((one) => one.isReadable),
      all_words: count((one) => one.finds({ keywords: one.words })),
      best_words: count((one) => one.findsWithBestWords),
      any_word_bm25: count((one) => one.finds({ keywords: one.words, rank: "bm25" })),
      any_word_newest: count((one) => one.findsNewest),
    };
  } finally {
    mail.close();
  }
}
