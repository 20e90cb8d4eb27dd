/**
 * Search in one person's mail. Keywords are words or short phrases; they are always quoted, never parsed as FTS5 or
 * SQL.
 *
 * Two rankings, with their cost for 225,000 mails of which 52,000 are in the inbox:
 * - by date (ART-E's): every keyword must occur, newest first. The inbox is a term of the query (schema.ts), so it
 * takes a fraction of a millisecond even for common words; most of a search is the snippets.
 * - by bm25: any keyword may occur, best match first. FTS5 then scores each mail with any of them and counts in how
 * many
 * mails each occurs. Words in more than a tenth of all mails contribute little to the rank and nearly all of the time
 * (a whole question took 140 ms with them, 15 ms without), so they are left out if rarer ones are present.
 */
import type { Database } from "better-sqlite3";
import { ToolError } from "../core/task/task.js";
import { cutText } from "../core/util/text.js";
import { phrasesOf, snippetOf } from "./snippet.js";
import { indexedText, isUnspaced, wordsIn } from "./words.js";

/**
 * The person who searches, and the date. They see mail they sent or received; with a date, no later or undated mail.
 */
export interface Viewer {
  readonly inbox: string;
  /** "YYYY-MM-DD", inclusive. Undefined: all days, and mails without a date. */
  readonly today?: string | undefined;
}

export type Ranking = "date" | "bm25";

export interface MailQuery {
  readonly keywords: readonly string[];
  readonly fromAddr?: string | undefined;
  /** An address in To, Cc or Bcc. */
  readonly toAddr?: string | undefined;
  /** Days as "YYYY-MM-DD", inclusive. */
  readonly sentAfter?: string | undefined;
  readonly sentBefore?: string | undefined;
  /** 1 to 10; 10 by default. */
  readonly maxResults?: number | undefined;
  /** "date" by default. */
  readonly rank?: Ranking | undefined;
}

export interface MailHit {
  readonly messageId: string;
  /** UTC, "YYYY-MM-DD HH:MM:SS". */
  readonly date: string | undefined;
  readonly subject: string;
  /** About 15 words around the keywords, which are in `<b>`. */
  readonly snippet: string;
}

const MAX_RESULTS = 10;
const MAX_KEYWORDS = 32;
const MAX_KEYWORD_CHARACTERS = 200;
/** Long phrases of common words are slow. */
const MAX_KEYWORD_WORDS = 10;
/** What takes the place of a word in scripts without spaces, for this limit. */
const CHARACTERS_OF_A_WORD = 4;
/** A word is common if it occurs in more than this share of all mails, beyond a minimum number. */
const COMMON_SHARE = 0.1;
const COMMON_MAILS = 100;

function wordCount(keyword: string): number {
  const words = keyword.match(wordsIn(keyword)) ?? [];
  const characters = words.filter(isUnspaced).length;
  return words.length - characters + Math.ceil(characters / CHARACTERS_OF_A_WORD);
}

/** The keywords without duplicates. Throws ToolError. */
function checkKeywords(keywords: readonly string[]): string[] {
  if (keywords.length === 0) throw new ToolError("keywords is empty: give one to three words of the mail");
  if (keywords.length > MAX_KEYWORDS) {
    throw new ToolError(`${keywords.length} keywords are too many: give at most ${MAX_KEYWORDS}`);
  }
  for (const keyword of keywords) {
    if (keyword.length > MAX_KEYWORD_CHARACTERS) {
      throw new ToolError(`a keyword has ${keyword.length} characters: give at most ${MAX_KEYWORD_CHARACTERS}`);
    }
    const count = wordCount(keyword);
    if (count === 0) throw new ToolError(`the keyword ${JSON.stringify(cutText(keyword, 40))} has no word in it`);
    if (count > MAX_KEYWORD_WORDS) {
      throw new ToolError(
        `a keyword is a word or a phrase of at most ${MAX_KEYWORD_WORDS} words: give several keywords`,
      );
    }
  }
  return [...new Set(keywords.map((keyword) => keyword.trim().toLowerCase()))];
}

/** Throws ToolError. */
function checkDay(name: string, day: string | undefined): string | undefined {
  if (day === undefined) return undefined;
  const isDay = /^\d{4}-\d{2}-\d{2}$/.test(day) && new Date(`${day}T00:00:00Z`).toJSON()?.startsWith(day);
  if (!isDay) throw new ToolError(`${name} must be a day as YYYY-MM-DD, not ${JSON.stringify(cutText(day, 40))}`);
  return day;
}

/** Throws ToolError. */
function checkLimit(limit = MAX_RESULTS): number {
  if (!Number.isInteger(limit) || limit < 1 || limit > MAX_RESULTS) {
    throw new ToolError(`max_results must be a whole number from 1 to ${MAX_RESULTS}`);
  }
  return limit;
}

/** An FTS5 string, in which nothing is syntax. FTS5 would stop at a NUL, which separates words anyway. */
const quoted = (keyword: string) => `"${keyword.replaceAll("\0", " ").replaceAll('"', '""')}"`;

interface MailRow {
  messageId: string;
  date: string | null;
  subject: string;
  body: string;
}

export type MailSearch = (viewer: Viewer, query: MailQuery) => MailHit[];

/**
 * @param indexed a text as the index of this database has it
 * @returns a search, which throws ToolError on an empty or too large query, or an invalid day
 */
export function mailSearch(db: Database, indexed = indexedText): MailSearch {
  const number = (sql: string) => db.prepare(sql).pluck() as { get(...values: unknown[]): number | undefined };
  const addressId = number("SELECT id FROM addresses WHERE address = ?");
  const firstNotAfter = number(
    "SELECT position FROM timeline WHERE date <= ? || ' 23:59:59' ORDER BY date DESC, position LIMIT 1",
  );
  const lastNotBefore = number("SELECT position FROM timeline WHERE date >= ? ORDER BY date, position DESC LIMIT 1");
  const lastDated = number("SELECT position FROM timeline WHERE date >= '' ORDER BY date, position DESC LIMIT 1");
  const mails = number("SELECT max(position) FROM timeline");
  const occursIn = number("SELECT count(*) FROM (SELECT 1 FROM emails_fts WHERE emails_fts MATCH ? LIMIT ?)");
  const rankedBy = (order: string) =>
    db
      .prepare(
        // FTS5 accepts a bound on rowid only as an integer; better-sqlite3 sends numbers as reals.
        `SELECT rowid FROM emails_fts WHERE emails_fts MATCH ?
         AND rowid >= CAST(? AS INTEGER) AND rowid <= CAST(? AS INTEGER) ORDER BY ${order} LIMIT ?`,
      )
      .pluck();
  const ranked = { date: rankedBy("rowid"), bm25: rankedBy("bm25(emails_fts, 1, 1, 0), rowid") };
  const mail = db.prepare(
    `SELECT message_id AS messageId, emails.date, subject, body
     FROM timeline JOIN emails ON emails.id = email_id WHERE position = ?`,
  );
  /** Words known to be common; a few dozen in any language. */
  const common = new Set<string>();

  const term = (keyword: string) => quoted(indexed(keyword));

  function isCommon(keyword: string): boolean {
    if (common.has(keyword)) return true;
    if (wordCount(keyword) !== 1) return false;
    const threshold = Math.max(COMMON_MAILS, Math.ceil(COMMON_SHARE * (mails.get() ?? 0)));
    const found = (occursIn.get(term(keyword), threshold + 1) ?? 0) > threshold;
    if (found) common.add(keyword);
    return found;
  }

  function textTerms(keywords: string[], rank: Ranking): string {
    if (rank === "date") return keywords.map(term).join(" AND ");
    const rare = keywords.filter((keyword) => !isCommon(keyword));
    return (rare.length > 0 ? rare : keywords).map(term).join(" OR ");
  }

  /** The query's people; undefined when one of them occurs in no mail. */
  function peopleTerms(inbox: string, { fromAddr, toAddr }: MailQuery): string | undefined {
    const token = (part: "f" | "t", address: string) => {
      const id = addressId.get(bareAddress(address));
      return id === undefined ? undefined : `"${part}${id}"`;
    };
    const terms: (string | undefined)[] = [token("f", inbox) && `(${token("f", inbox)} OR ${token("t", inbox)})`];
    if (fromAddr !== undefined) terms.push(token("f", fromAddr));
    if (toAddr !== undefined) terms.push(token("t", toAddr));
    return terms.includes(undefined) ? undefined : `people : (${terms.join(" AND ")})`;
  }

  /** The range of the timeline between two days; undefined when it contains no mail. */
  function positionsOf(after: string | undefined, until: string | undefined) {
    const first = until === undefined ? 1 : firstNotAfter.get(until);
    // A bound on the date excludes mails without a date.
    const dated = () => (until !== undefined ? lastDated.get() : mails.get());
    const last = after !== undefined ? lastNotBefore.get(after) : dated();
    if (first === undefined || last === undefined || last === null || first > last) return undefined;
    return { first, last };
  }

  return (viewer, query) => {
    const keywords = checkKeywords(query.keywords);
    const sentAfter = checkDay("sent_after", query.sentAfter);
    const sentBefore = checkDay("sent_before", query.sentBefore);
    const limit = checkLimit(query.maxResults);
    const rank = query.rank ?? "date";

    const people = peopleTerms(viewer.inbox, query);
    const positions = positionsOf(sentAfter, earlier(sentBefore, viewer.today));
    if (!people || !positions) return [];
    const text = `{subject body} : (${textTerms(keywords, rank)})`;
    const found = ranked[rank].all(`${people} AND ${text}`, positions.first, positions.last, limit) as number[];
    const phrases = phrasesOf(keywords);
    return found.map((position) => {
      const { messageId, date, subject, body } = mail.get(position) as MailRow;
      return { messageId, date: date ?? undefined, subject, snippet: snippetOf(subject, body, phrases) };
    });
  };
}

function earlier(a: string | undefined, b: string | undefined): string | undefined {
  if (a === undefined || b === undefined) return a ?? b;
  return a < b ? a : b;
}

/** An address as in the database; models also write "Ann Smith <Ann@x.com>". */
export function bareAddress(text: string): string {
  return (/<([^<>]*)>/.exec(text)?.[1] ?? text).trim().toLowerCase();
}
