/**
 * Comparison of texts by their words, for any language: no list of stop words, rare words count more (inverse document
 * frequency, Spärck Jones 1972, over the pieces of the source).
 */

const WORD = /[\p{L}\p{N}]+/gu;

/** Without accents, case and the commonest English endings. */
function stem(word: string): string {
  return word.length > 4 ? word.replace(/(?:ing|ed|es|s|e)$/, "") : word;
}

/** The words of a text, in order. */
export function stems(text: string): string[] {
  const plain = text.normalize("NFKD").replace(/\p{M}/gu, "").toLowerCase();
  return (plain.match(WORD) ?? []).map(stem);
}

/** A text with single spaces, for finding a quotation in it. */
export const flat = (text: string) => text.normalize("NFKC").replace(/\s+/g, " ").trim().toLowerCase();

/** Words of a shingle: a run of words that two texts have in common by copying alone. */
const SHINGLE = 8;

export function shingles(words: readonly string[]): Set<string> {
  const found = new Set<string>();
  for (let i = 0; i + SHINGLE <= words.length; i++) found.add(words.slice(i, i + SHINGLE).join(" "));
  return found;
}

/** Share of the words that two sets have in common (Jaccard). */
export function overlap(a: ReadonlySet<string>, b: ReadonlySet<string>, weight: (word: string) => number): number {
  let common = 0;
  let all = 0;
  for (const word of a) {
    all += weight(word);
    if (b.has(word)) common += weight(word);
  }
  for (const word of b) if (!a.has(word)) all += weight(word);
  return all === 0 ? 0 : common / all;
}

/** Weights of words by how few of the texts have them. */
export class Rarity {
  readonly #counts = new Map<string, number>();
  readonly #texts: number;

  constructor(texts: Iterable<ReadonlySet<string>>) {
    let total = 0;
    for (const words of texts) {
      total++;
      for (const word of words) this.#counts.set(word, (this.#counts.get(word) ?? 0) + 1);
    }
    this.#texts = total;
  }

  weight = (word: string): number => Math.log(1 + this.#texts / (1 + (this.#counts.get(word) ?? 0)));

  /** Share of the words, by weight, that a text has. */
  covered(words: ReadonlySet<string>, text: ReadonlySet<string>): number {
    let has = 0;
    let all = 0;
    for (const word of words) {
      all += this.weight(word);
      if (text.has(word)) has += this.weight(word);
    }
    return all === 0 ? 0 : has / all;
  }
}
