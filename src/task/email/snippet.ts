/**
 * The words around a hit. What FTS5's snippet() gives ART-E, but cut here: FTS5 compares every occurrence of a word with
 * every other (30 ms for ten long mails with a common word), this stops looking after a while.
 */
import { cutText } from "../../util/text.js";

/** Words in a snippet. */
const LENGTH = 15;
/** After the first place, a better one is looked for in this many words. */
const PATIENCE = 200;
/** A "word" of mail can be a page of base64. */
const MAX_CHARACTERS = 300;

/** What FTS5's unicode61 takes for a word; combining diacritics belong to it. */
const word = /[\p{L}\p{N}\p{Co}](?:[\p{L}\p{N}\p{Co}]|[\u0300-\u036f])*/gu;

/** As unicode61 compares words: without case and diacritics. */
function fold(text: string): string {
  const lower = text.toLowerCase();
  return /[^ -~]/.test(lower) ? lower.normalize("NFD").replace(/\p{M}/gu, "") : lower;
}

/** A keyword's words, folded. */
type Phrase = readonly string[];

/** Keywords as {@link snippetOf} takes them. A keyword without any word gives no phrase. */
export function phrasesOf(keywords: readonly string[]): Phrase[] {
  return keywords.map((keyword) => (keyword.match(word) ?? []).map(fold)).filter((phrase) => phrase.length > 0);
}

/** The words of a text, found as far as they are asked for. */
class Words {
  readonly starts: number[] = [];
  readonly ends: number[] = [];
  readonly folded: string[] = [];
  readonly #pattern: RegExp;
  readonly #source: string;
  readonly #fold: (word: string) => string;

  constructor(readonly text: string) {
    // Most mail is ASCII: lower-cased in one go it keeps its length, and its words are found thrice as fast.
    const isAscii = !/[\u0080-\uffff]/.test(text);
    this.#pattern = isAscii ? /[a-z0-9]+/g : new RegExp(word);
    this.#source = isAscii ? text.toLowerCase() : text;
    this.#fold = isAscii ? (lower) => lower : fold;
  }

  /** Is there a word with this index? */
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
      this.folded.push(this.#fold(match[0]));
    }
    return true;
  }

  /** Does the phrase begin at this word? */
  isAt(index: number, phrase: Phrase): boolean {
    return phrase.every((folded, offset) => this.has(index + offset) && this.folded[index + offset] === folded);
  }
}

/** A stretch of words with as many of the phrases as fit. */
interface Place {
  readonly phrases: number;
  readonly first: number;
  readonly last: number;
}

function bestPlace(words: Words, phrases: readonly Phrase[]): Place {
  let best: Place = { phrases: 0, first: 0, last: 0 };
  let near: { phrase: Phrase; first: number; last: number }[] = [];
  for (let index = 0, end = Number.POSITIVE_INFINITY; index < end && words.has(index); index++) {
    for (const phrase of phrases) {
      if (phrase[0] !== words.folded[index] || !words.isAt(index, phrase)) continue;
      const last = index + phrase.length - 1;
      near = near.filter(({ first }) => first > last - LENGTH);
      near.push({ phrase, first: index, last });
      const count = new Set(near.map((one) => one.phrase)).size;
      if (count > best.phrases) best = { phrases: count, first: near[0]?.first ?? index, last };
      if (count === phrases.length) return best;
      end = Math.min(end, index + PATIENCE);
    }
  }
  return best;
}

/** Cuts around a place, the place in the middle. */
function cut(words: Words, { first, last }: Place, phrases: readonly Phrase[]): string {
  const room = Math.max(0, LENGTH - (last - first + 1));
  let start = Math.max(0, first - Math.floor(room / 2));
  if (!words.has(start + LENGTH - 1)) start = Math.max(0, words.folded.length - LENGTH);
  const end = Math.min(start + LENGTH, words.folded.length);
  const isAll = !words.has(end);

  const { text, starts, ends } = words;
  let from = start === 0 ? 0 : (starts[start] as number);
  let snippet = start === 0 ? "" : "... ";
  for (let index = start; index < end; index++) {
    const longest = Math.max(0, ...phrases.map((phrase) => (words.isAt(index, phrase) ? phrase.length : 0)));
    if (longest === 0) continue;
    const to = ends[index + longest - 1] as number;
    snippet += `${text.slice(from, starts[index])}<b>${text.slice(starts[index], to)}</b>`;
    from = to;
    index += longest - 1;
  }
  const until = isAll ? text.length : (ends[end - 1] as number);
  return `${snippet}${text.slice(from, Math.max(from, until))}${isAll ? "" : " ..."}`;
}

/** One line, without the rules and gaps that fill lines of mail. */
function tidy(snippet: string): string {
  const line = snippet
    .replace(/\s+/g, " ")
    .replace(/([^\p{L}\p{N}\s])\1{3,}/gu, "$1$1$1")
    .trim();
  if (line.length <= MAX_CHARACTERS) return line;
  const kept = cutText(line, MAX_CHARACTERS).replace(/<\/?b?$/, "");
  return `${kept}${kept.lastIndexOf("<b>") > kept.lastIndexOf("</b>") ? "</b>" : ""} ...`;
}

/**
 * The best 15 words of a mail for these keywords, which stand in `<b>`: of its body, or of its subject when that has more
 * of them. " ..." stands for what is left out.
 */
export function snippetOf(subject: string, body: string, phrases: readonly Phrase[]): string {
  const [inBody, inSubject] = [new Words(body), new Words(subject)];
  const [bodyPlace, subjectPlace] = [bestPlace(inBody, phrases), bestPlace(inSubject, phrases)];
  return tidy(
    subjectPlace.phrases > bodyPlace.phrases ? cut(inSubject, subjectPlace, phrases) : cut(inBody, bodyPlace, phrases),
  );
}
