/**
 * What a word is to the search, in the index, in a query and in a snippet alike.
 *
 * FTS5's unicode61 ends a word at a space or a sign. Chinese, Japanese, Thai, Lao, Khmer, Burmese and their like write no
 * spaces, and Korean glues particles to its words, so a whole clause would be one word there. Each of their characters
 * is therefore a word of its own, and a keyword of several a phrase. On generated mail of such scripts that finds every
 * word, as bigrams do, in an index a third smaller and with a slowest search a fifth as long; a dictionary
 * (Intl.Segmenter) cuts a compound in one mail otherwise than in another and finds a third of the parts of words,
 * SQLite's trigrams find no word of two characters. Text in other scripts is not touched.
 */

/** What unicode61 takes for a part of a word. */
const letter = "[\\p{L}\\p{N}\\p{Co}]";
const unspaced = `(?=[${[
  "Hani",
  "Hira",
  "Kana",
  "Bopo",
  "Hang",
  "Yiii",
  "Thai",
  "Laoo",
  "Khmr",
  "Mymr",
  "Tale",
  "Talu",
  "Lana",
  "Tavt",
]
  .map((script) => `\\p{scx=${script}}`)
  .join("")}])[\\p{L}\\p{N}]`;
/** Letters that Unicode has twice, for old encodings of CJK: full and half width, radicals, parts of syllables. */
const twice = /[\u0e33\u0eb3\u1100-\u11ff\u2e80-\u2fdf\u3040-\u30ff\uf900-\ufaff\uff01-\uffef]+/g;
/** A character with the marks that belong to it; of Korean in parts, a syllable. */
const character = `[\\u1100-\\u115f][\\u1160-\\u11a7]*[\\u11a8-\\u11ff]*|[\\u2e80-\\u2fdf]|${unspaced}[\\p{M}\\uff9e\\uff9f]*`;

/** Code units without which a text has no such character. Far quicker than the properties, for the mail that has none. */
const possible =
  /[\u0e00-\u0eff\u1000-\u11ff\u1780-\u17ff\u1950-\u1aff\u2e80-\ud7ff\ud82c-\ud83b\ud840-\ud8ff\uf900-\ufaff\uff01-\uffef]/;
const unspacedCharacter = new RegExp(character, "gu");
const mark = /\p{M}/gu;

/** Whether {@link indexedText} may change a text. */
export const isUnspaced = (text: string): boolean => possible.test(text);

/**
 * A text as the index has it. A mark is a separator to unicode61, but in these scripts it makes another word, so marks
 * are moved to the private planes, whose characters are letters to it.
 */
export function indexedText(text: string): string {
  if (!isUnspaced(text)) return text;
  return text
    .replace(twice, (same) => same.normalize("NFKC"))
    .replace(unspacedCharacter, (one) => {
      const [base = "", ...marks] = one;
      return ` ${base}${marks.join("").replace(mark, (sign) => String.fromCodePoint(0xf0000 + (sign.codePointAt(0) as number)))} `;
    });
}

const spacedWord = /[\p{L}\p{N}\p{Co}](?:[\p{L}\p{N}\p{Co}]|[\u0300-\u036f])*/gu;
const word = new RegExp(
  `${character}|(?:(?!${unspaced})${letter})(?:(?!${unspaced})${letter}|[\\u0300-\\u036f])*`,
  "gu",
);

/** A pattern of the words of a text as it is written, including combining diacritics. */
export const wordsIn = (text: string): RegExp => new RegExp(isUnspaced(text) ? word : spacedWord);

/** A word in the form in which words are compared: without case and diacritics, as in the index. */
export function fold(text: string): string {
  const lower = indexedText(text).trim().toLowerCase();
  return /[^ -~]/.test(lower) && !isUnspaced(lower) ? lower.normalize("NFD").replace(mark, "") : lower;
}
