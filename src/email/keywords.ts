/** Search words that a scripted player takes from a scenario. */
import type { EmailScenario } from "./scenario.js";

/** Words of questions that do not help a search. */
const stopWords = new Set(
  `a about according after all am an and any are as ask asked at be been before by can come comes company could date day
   did do does for from give had has have he her his how i if in information into is it its large many me much my name
   named of on or our out place said say scheduled sent she should so some tell than that the their them there they this
   time to was we were what when where which who whom whose why will with would year you your`.split(/\s+/),
);

/** Maximum number of searches. */
const MOST_SEARCHES = 5;

const wordsOf = (text: string) => text.match(/[\p{L}\p{N}]+/gu) ?? [];

/**
 * Searches that should find the evidence, best first. A synthetic scenario contains its words; for other questions the
 * most specific words are tried together and then fewer of them: names and numbers before other words, long ones before
 * short.
 */
export function goodSearches({ question, facts }: EmailScenario): string[][] {
  if (facts) return [[facts.project, facts.topic]];
  const specificity = (word: string) => (/[\p{Lu}\p{N}]/u.test(word) ? 100 : 0) + word.length;
  const [a, b, c] = [...new Set(wordsOf(question).filter((word) => !stopWords.has(word.toLowerCase())))].sort(
    (one, other) => specificity(other) - specificity(one),
  );
  const sets = [[a, b, c], [a, b], [a, c], [b, c], [a]].map((set) => set.filter((word) => word !== undefined));
  const seen = new Set<string>();
  return sets.filter((set) => set.length > 0 && seen.size < seen.add(set.join(" ")).size).slice(0, MOST_SEARCHES);
}

/** A search with few or no results, with a word of the question that need not occur in any mail. */
export function badSearch({ question, facts }: EmailScenario): string[] {
  const words = wordsOf(question);
  if (!facts) return words;
  const asking = words.find((word) =>
    ["date", "day", "city", "place", "name", "amount", "large", "company"].includes(word),
  );
  return [facts.project, asking ?? (words[0] as string).toLowerCase()];
}
