/** Regular expressions as languages: patterns of JSON Schema, and hone's own. */
import { JS } from "refa";
import { translated, Untranslatable } from "../chat/patterns.js";
import { type Language, type Languages, Unwritable } from "./automata.js";

/** Parts of an expression. */
const MOST_PARTS = 4000;
/** Repetitions of what has an assertion in it, which are written out. */
const MOST_UNROLLED = 4;

type Concatenation = ReturnType<JS.Parser["parse"]>["expression"]["alternatives"][number];
type Element = Concatenation["elements"][number];

/** What is known of the place in a text: its beginning, behind its beginning, or neither. */
type Place = "beginning" | "behind" | "unknown";

/** The place behind an element: what may have read nothing leaves it open. */
const next = (place: Place, element: Element): Place =>
  place === "behind" || element.type === "Assertion" ? place : "unknown";

const hasAssertion = (element: Element): boolean =>
  element.type === "Assertion" ||
  ("alternatives" in element && element.alternatives.some(({ elements }) => elements.some(hasAssertion)));

/** Whether an assertion is `^`: no character stands before. */
function isBeginning(element: Element): boolean {
  if (element.type !== "Assertion" || element.kind !== "behind" || !element.negate) return false;
  const [only, ...others] = element.alternatives.flatMap(({ elements }) => elements);
  return others.length === 0 && only?.type === "CharacterClass" && only.characters.isAll;
}

function parsed(pattern: string, languages: Languages): readonly Concatenation[] {
  languages.spend(pattern.length);
  try {
    const { source, flags } = translated(pattern);
    const parser = JS.Parser.fromLiteral({ source, flags });
    return parser.parse({ backreferences: "throw", maxNodes: MOST_PARTS }).expression.alternatives;
  } catch (error) {
    if (error instanceof Untranslatable) throw new Unwritable(error.message);
    if (/backreference/i.test(String(error))) throw new Unwritable("references back have no grammar");
    throw new Unwritable(error instanceof SyntaxError ? "it is no pattern" : "its grammar would be too large");
  }
}

/** Reads parts of expressions together with what stands behind them: an assertion tells of all that follows. */
class Reading {
  constructor(readonly languages: Languages) {}

  alternatives(list: readonly Concatenation[], place: Place, tail: Language): Language {
    return this.languages.any(list.map(({ elements }) => this.#sequence(elements, place, tail)));
  }

  #sequence(elements: readonly Element[], place: Place, tail: Language): Language {
    const places = [place];
    for (const element of elements) places.push(next(places.at(-1) as Place, element));
    return elements.reduceRight(
      (behind, element, index) => this.#element(element, places[index] as Place, behind),
      tail,
    );
  }

  #element(element: Element, place: Place, tail: Language): Language {
    const { languages } = this;
    if (element.type === "CharacterClass") return languages.sequence(languages.set(element.characters), tail);
    if (element.type === "Alternation") return this.alternatives(element.alternatives, place, tail);
    if (element.type === "Quantifier" && !hasAssertion(element)) {
      const once = this.alternatives(element.alternatives, "unknown", languages.empty);
      return languages.sequence(languages.repeated(once, element.min, element.max), tail);
    }
    if (element.type === "Quantifier" && element.max <= MOST_UNROLLED) {
      let read = tail;
      for (let turn = element.max; turn > 0; turn--) {
        const own = this.alternatives(element.alternatives, turn === 1 ? place : next(place, element), read);
        read = turn > element.min ? languages.any([tail, own]) : own;
      }
      return read;
    }
    if (element.type !== "Assertion") throw new Unwritable("an assertion that is repeated has no grammar");
    if (isBeginning(element)) {
      if (place === "unknown") throw new Unwritable("a ^ that may stand at the beginning or behind it has no grammar");
      return place === "behind" ? languages.nothing : tail;
    }
    if (element.kind === "behind") throw new Unwritable("what looks behind, or at the edge of a word, has no grammar");
    const ahead = this.alternatives(element.alternatives, place, languages.every);
    return languages.all([element.negate ? languages.not(ahead) : ahead, tail]);
  }
}

/** Texts in which a pattern of JSON Schema is found. @throws Unwritable where it has no automaton, or that would be too large */
export function patternOf(pattern: string, languages: Languages): Language {
  const list = parsed(pattern, languages);
  const reading = new Reading(languages);
  const later = reading.alternatives(list, "behind", languages.every);
  return languages.any([
    reading.alternatives(list, "beginning", languages.every),
    languages.sequence(languages.character, languages.every, later),
  ]);
}

/** Texts that a regular expression of ours matches from the beginning to the end. */
export const textsOf = (source: string, languages: Languages): Language =>
  new Reading(languages).alternatives(parsed(source, languages), "beginning", languages.empty);
