/**
 * Snippets around hits, as FTS5's snippet() chooses them (for ART-E: 15 tokens, `<b>`, " ... "). Computed here because
 * FTS5 compares every occurrence of a word with every other, which took 30 ms for ten long mails with a common word;
 * this search is bounded.
 */
import { cutText } from "../core/util/text.js";
import { fold, isUnspaced, wordsIn } from "./words.js";

/** Number of words in a snippet, and of characters where they have the place of words. */
const LENGTH = { words: 15, characters: 40 };
/** Characters by which it is told which of the two a text has. */
const HEAD = 1000;
/** Number of words after the first occurrence in which a better place is searched for. */
const PATIENCE = 150;
/** Mail contains "words" of a page of base64. */
const MAX_CHARACTERS = 300;

/** A keyword's words, folded. */
type Phrase = readonly string[];

/** Keywords in the form for {@link snippetOf}. A keyword without any word gives no phrase. */
export function phrasesOf(keywords: readonly string[]): Phrase[] {
  return keywords
    .map((keyword) => (keyword.match(wordsIn(keyword)) ?? []).map(fold))
    .filter((phrase) => phrase.length > 0);
}

const FULL_STOP = 0x2e;
const COLON = 0x3a;
/** No gap follows it. */
const IDEOGRAPHIC_FULL_STOP = 0x3002;
/** Space, tab, line feed, carriage return. */
const isGap = (code: number) => code === 0x20 || code === 0x09 || code === 0x0a || code === 0x0d;

function isMostlyUnspaced(text: string): boolean {
  if (!isUnspaced(text)) return false;
  const words = text.slice(0, HEAD).match(wordsIn(text)) ?? [];
  return words.filter(isUnspaced).length * 2 > words.length;
}

/** The words of a text, tokenised on demand. */
class Words {
  readonly starts: number[] = [];
  readonly ends: number[] = [];
  readonly folded: string[] = [];
  /** The first word of each word's sentence. */
  readonly sentences: number[] = [];
  /** Number of words in a snippet of this text. */
  readonly length: number;
  readonly #pattern: RegExp;
  readonly #source: string;
  readonly #fold: (word: string) => string;

  constructor(readonly text: string) {
    // ASCII text, as in most mail, keeps its length in lower case, and its words are found three times as fast.
    const isAscii = !/[\u0080-\uffff]/.test(text);
    this.#pattern = isAscii ? /[a-z0-9]+/g : wordsIn(text);
    this.#source = isAscii ? text.toLowerCase() : text;
    this.#fold = isAscii ? (lower) => lower : fold;
    this.length = isMostlyUnspaced(text) ? LENGTH.characters : LENGTH.words;
  }

  /** Whether there is a word with this index. */
  has(index: number): boolean {
    while (this.folded.length <= index) {
      const match = this.#pattern.exec(this.#source);
      if (!match) {
        // At the end the pattern would start again.
        this.#pattern.lastIndex = this.#source.length;
        return false;
      }
      this.starts.push(match.index);
      this.ends.push(match.index + match[0].length);
      const before = this.sentences.at(-1);
      this.sentences.push(before === undefined || this.#endsSentence(match.index) ? this.folded.length : before);
      this.folded.push(this.#fold(match[0]));
    }
    return true;
  }

  /** Whether a full stop or a colon and a gap come before this position. */
  #endsSentence(place: number): boolean {
    let before = place - 1;
    if (this.text.charCodeAt(before) === IDEOGRAPHIC_FULL_STOP) return true;
    while (isGap(this.text.charCodeAt(before))) before--;
    const code = before === place - 1 ? 0 : this.text.charCodeAt(before);
    return code === FULL_STOP || code === COLON;
  }

  /** The start of a snippet that should begin at this word, moved to lie within the text. */
  fit(start: number): number {
    const isRoom = this.has(start + this.length - 1);
    return Math.max(0, isRoom ? start : this.folded.length - this.length);
  }

  /** Whether the phrase begins at this word. */
  isAt(index: number, phrase: Phrase): boolean {
    return phrase.every((folded, offset) => this.has(index + offset) && this.folded[index + offset] === folded);
  }
}

/** An occurrence of a phrase, given by its index in the list of phrases. */
interface Occurrence {
  readonly phrase: number;
  readonly at: number;
}

/** Start of a snippet and its score. */
interface Place {
  readonly start: number;
  readonly score: number;
}

function occurrencesIn(words: Words, phrases: readonly Phrase[]): Occurrence[] {
  const found: Occurrence[] = [];
  for (let at = 0, end = Number.POSITIVE_INFINITY; at < end && words.has(at); at++) {
    for (const [phrase, folded] of phrases.entries()) {
      if (folded[0] !== words.folded[at] || !words.isAt(at, folded)) continue;
      found.push({ phrase, at });
      end = Math.min(end, at + PATIENCE);
    }
  }
  return found;
}

/**
 * FTS5's choice: most different phrases, then the beginning of a sentence (preferably of the text), then most
 * occurrences, then the first. Without a sentence's beginning the occurrences are centred.
 */
function bestPlace(words: Words, phrases: readonly Phrase[]): Place {
  const found = occurrencesIn(words, phrases);
  let best: Place = { start: 0, score: 0 };

  /** Scores the window that begins at `from`, which is at or before occurrence `index`. */
  const look = (from: number, index: number) => {
    let first = index;
    while (first > 0 && (found[first - 1] as Occurrence).at >= from) first--;
    const seen = new Set<number>();
    let count = 0;
    let end = from;
    for (let next = first; next < found.length; next++) {
      const { phrase, at } = found[next] as Occurrence;
      if (at >= from + words.length) break;
      seen.add(phrase);
      count++;
      end = at + (phrases[phrase] as Phrase).length;
    }
    return { score: 1000 * seen.size + (count - seen.size), end };
  };

  for (const [index, { at }] of found.entries()) {
    const { score, end } = look(at, index);
    if (score > best.score) best = { start: words.fit(at - Math.trunc((words.length - (end - at)) / 2)), score };
    const sentence = words.sentences[at] as number;
    if (sentence === at || !words.has(words.length)) continue;
    const atSentence = look(sentence, index).score + (sentence === 0 ? 120 : 100);
    if (atSentence > best.score) best = { start: sentence, score: atSentence };
  }
  return best;
}

function cut(words: Words, start: number, phrases: readonly Phrase[]): string {
  const isAll = !words.has(start + words.length);
  const end = Math.min(start + words.length, words.folded.length);
  const { text, starts, ends } = words;
  const longestAt = (index: number) =>
    Math.max(0, ...phrases.map((phrase) => (words.isAt(index, phrase) ? phrase.length : 0)));

  let snippet = start === 0 ? "" : "... ";
  let from = start === 0 ? 0 : (starts[start] as number);
  for (let index = start; index < end; ) {
    let past = index + longestAt(index);
    if (past === index) {
      index++;
      continue;
    }
    // Overlapping phrases are marked as one.
    for (let next = index + 1; next < past; next++) past = Math.max(past, next + longestAt(next));
    const to = ends[Math.min(past, end) - 1] as number;
    snippet += `${text.slice(from, starts[index])}<b>${text.slice(starts[index], to)}</b>`;
    from = to;
    index = past;
  }
  return isAll ? snippet + text.slice(from) : `${snippet}${text.slice(from, ends[end - 1])} ...`;
}

/** Joins lines, and removes the rules and gaps that fill lines of mail. */
function tidy(snippet: string): string {
  const line = snippet
    .replace(/\s+/g, " ")
    .replace(/([^\p{L}\p{N}\s])\1{3,}/gu, "$1$1$1")
    .trim();
  if (line.length <= MAX_CHARACTERS) return line;
  const kept = cutText(line, MAX_CHARACTERS).replace(/<\/?b?$/, "");
  return `${kept}${kept.lastIndexOf("<b>") > kept.lastIndexOf("</b>") ? "</b>" : ""} ...`;
}

/** The best place of a mail for these keywords, which are put in `<b>`. " ..." marks omitted text. */
export function snippetOf(subject: string, body: string, phrases: readonly Phrase[]): string {
  const [inSubject, inBody] = [new Words(subject), new Words(body)];
  const [subjectPlace, bodyPlace] = [bestPlace(inSubject, phrases), bestPlace(inBody, phrases)];
  const isInSubject = subjectPlace.score > 0 && subjectPlace.score >= bodyPlace.score;
  return tidy(isInSubject ? cut(inSubject, subjectPlace.start, phrases) : cut(inBody, bodyPlace.start, phrases));
}
