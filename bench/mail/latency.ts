/** Latency of the tools in a large database: one caller, one thread, the largest inbox. */
import Database from "better-sqlite3";
import { Random } from "../../src/core/util/random.js";
import { type MailDatabase, openMailDatabase } from "../../src/email/reader.js";
import type { EmailScenario } from "../../src/email/scenario.js";

/** Milliseconds. */
export interface Latency {
  n: number;
  p50: number;
  p99: number;
  max: number;
}

export interface LatencyFigures {
  mails: number;
  /** Number of mails in the searched inbox. */
  inbox: number;
  /** One to three words of a question, common ones included: all must occur, newest first. */
  search: Latency;
  /** The same words, any may occur, best match first. */
  search_bm25: Latency;
  /** All words of a question, ranked by bm25. */
  search_bm25_question: Latency;
  read: Latency;
}

function summarise(milliseconds: number[]): Latency {
  const sorted = [...milliseconds].sort((a, b) => a - b);
  const at = (share: number) =>
    Number((sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))] ?? Number.NaN).toFixed(3));
  return { n: sorted.length, p50: at(0.5), p99: at(0.99), max: at(1) };
}

function time(work: () => unknown): number {
  const start = performance.now();
  work();
  return performance.now() - start;
}

function largestInbox(db: string): { mails: number; inbox: string; size: number } {
  const plain = new Database(db, { readonly: true });
  try {
    const mails = plain.prepare("SELECT count(*) FROM emails").pluck().get() as number;
    const [inbox, size] = plain
      .prepare(
        `SELECT address, count(DISTINCT email_id) FROM (
           SELECT recipient_address AS address, email_id FROM recipients UNION ALL SELECT from_address, id FROM emails)
         WHERE address <> '' GROUP BY address ORDER BY 2 DESC LIMIT 1`,
      )
      .raw()
      .get() as [string, number];
    return { mails, inbox, size };
  } finally {
    plain.close();
  }
}

interface Question {
  words: string[];
  today: string;
}

class Timed {
  readonly #random = new Random("mail latency");
  readonly #questions: Question[];

  constructor(
    readonly mail: MailDatabase,
    readonly inbox: string,
    scenarios: readonly EmailScenario[],
  ) {
    this.#questions = scenarios.map(({ question, query_date }) => ({
      words: question.toLowerCase().match(/[\p{L}\p{N}]+/gu) ?? [],
      today: query_date,
    }));
  }

  search(rank: "date" | "bm25", isWholeQuestion: boolean): { milliseconds: number; ids: string[] } {
    const { words, today } = this.#random.pick(this.#questions);
    const keywords = isWholeQuestion ? words : this.#random.sample(words, this.#random.integer(1, 3));
    let ids: string[] = [];
    const milliseconds = time(() => {
      ids = this.mail.search({ inbox: this.inbox, today }, { keywords, rank }).map(({ messageId }) => messageId);
    });
    return { milliseconds, ids };
  }
}

export function measureLatency(db: string): LatencyFigures {
  const { mails, inbox, size } = largestInbox(db);
  const mail = openMailDatabase(db);
  try {
    const timed = new Timed(mail, inbox, mail.scenarios());
    const times = (n: number, work: () => number) => summarise(Array.from({ length: n }, work));
    // The first calls compile code and warm the system's cache.
    for (let i = 0; i < 200; i++) timed.search("date", false);

    const ids: string[] = [];
    const search = times(5000, () => {
      const found = timed.search("date", false);
      ids.push(...found.ids);
      return found.milliseconds;
    });
    const random = new Random("reads");
    return {
      mails,
      inbox: size,
      search,
      search_bm25: times(500, () => timed.search("bm25", false).milliseconds),
      search_bm25_question: times(200, () => timed.search("bm25", true).milliseconds),
      read: times(5000, () => {
        const id = random.pick(ids);
        return time(() => mail.read({ inbox, today: "2009-12-31" }, id));
      }),
    };
  } finally {
    mail.close();
  }
}
