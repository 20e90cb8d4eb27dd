/**
 * Regular languages as expressions, whose derivatives are the states of their automata (Brzozowski, "Derivatives of regular
 * expressions", 1964). A grammar made of such an automaton has a single way to read a text, so that it costs little while tokens
 * are sampled.
 */
import { CharSet } from "refa";

const MAXIMUM = 0x10ffff;
/** States of one automaton at most: each becomes a rule of the grammar. */
const MOST_STATES = 2000;
/** Steps of work over all languages of a request: a tenth or two of a second of the thread that serves all requests. */
const MOST_STEPS = 300_000;
/** Steps that no part takes from those behind it, or half of what is left: what comes to nothing may cost all of its own. */
const LEFT = 50_000;
/** Ranges of characters, each in one of several sets, that are looked at in one step. */
const AT_ONCE = 4;
const ZERO = 0x30;

/** What has no automaton here. */
export class Unwritable extends Error {}

class TooLarge extends Unwritable {
  constructor() {
    super("its grammar would be too large");
  }
}

/** Characters from one to another. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

export const setOf = (ranges: readonly Range[]) => CharSet.empty(MAXIMUM).union(ranges);
export const charactersOf = (codes: readonly number[]) => setOf(codes.map((code) => ({ min: code, max: code })));

const digits = Array.from({ length: 10 }, (_, digit) => charactersOf([ZERO + digit]));

type Form =
  | { readonly kind: "set"; readonly characters: CharSet }
  | { readonly kind: "sequence"; readonly first: Language; readonly then: Language }
  | { readonly kind: "any" | "all"; readonly parts: readonly Language[] }
  | { readonly kind: "not"; readonly other: Language }
  | { readonly kind: "repeated"; readonly once: Language; readonly least: number; readonly most: number }
  /** Digits that leave no remainder behind those that left this one. */
  | { readonly kind: "multiple"; readonly divisor: number; readonly remainder: number };

/** Texts; those that are alike in form are one object. */
export type Language = Form & {
  readonly id: number;
  /** Whether the text without characters is one of them. */
  readonly hasEmpty: boolean;
};

export interface State {
  readonly final: boolean;
  readonly edges: readonly { readonly ranges: readonly Range[]; readonly to: number }[];
}

/** The languages of a request, and what they have cost, in steps that are the same on every machine: about a microsecond each. */
export class Languages {
  readonly #known = new Map<string, Language>();
  readonly #edges = new Map<Language, ReadonlyMap<Language, readonly Range[]>>();
  #steps = 0;
  #most = MOST_STEPS;
  /** No text. */
  readonly nothing = this.set(CharSet.empty(MAXIMUM));
  /** The text without characters. */
  readonly empty = this.#made("empty", { kind: "repeated", once: this.nothing, least: 0, most: 0 }, true);
  readonly character = this.set(CharSet.all(MAXIMUM));
  /** All texts. */
  readonly every = this.repeated(this.character, 0);

  get steps(): number {
    return this.#steps;
  }

  /** @throws TooLarge where that is more than is left */
  spend(steps: number): void {
    if (this.#steps + steps > this.#most) throw new TooLarge();
    this.#steps += steps;
  }

  /** What a part of the request makes, with work left for the others. @throws Unwritable */
  part<T>(make: () => T): T {
    this.#most = MOST_STEPS - Math.min(LEFT, (MOST_STEPS - this.#steps) / 2);
    try {
      return make();
    } catch (error) {
      // Deeper than the stack.
      throw error instanceof RangeError ? new TooLarge() : error;
    } finally {
      this.#most = MOST_STEPS;
    }
  }

  /** What no request can make dear, at no request's cost. */
  free<T>(make: () => T): T {
    const [steps, most] = [this.#steps, this.#most];
    this.#most = Number.POSITIVE_INFINITY;
    try {
      return make();
    } finally {
      this.#steps = steps;
      this.#most = most;
    }
  }

  #made(key: string, form: Form, hasEmpty: boolean): Language {
    const known = this.#known.get(key);
    if (known) return known;
    this.spend(2);
    const made = { ...form, id: this.#known.size, hasEmpty };
    this.#known.set(key, made);
    return made;
  }

  /** A character of a set. */
  set(characters: CharSet): Language {
    this.spend(Math.ceil(characters.ranges.length / AT_ONCE));
    return this.#made(`[${characters.toRangesString()}]`, { kind: "set", characters }, false);
  }

  /** One text. */
  text(text: string): Language {
    return this.sequence(...[...text].map((one) => this.set(charactersOf([one.codePointAt(0) as number]))));
  }

  /** A digit from one to another. */
  digits(least: number, most = 9): Language {
    return least > most ? this.nothing : this.set(setOf([{ min: ZERO + least, max: ZERO + most }]));
  }

  sequence(...parts: readonly Language[]): Language {
    return parts.reduceRight((then, first) => this.#followed(first, then), this.empty);
  }

  #followed(first: Language, then: Language): Language {
    if (first === this.nothing || then === this.nothing) return this.nothing;
    if (first === this.empty) return then;
    if (then === this.empty || (first === this.every && then === this.every)) return first;
    if (first.kind === "sequence") return this.#followed(first.first, this.#followed(first.then, then));
    const hasEmpty = first.hasEmpty && then.hasEmpty;
    return this.#made(`${first.id}.${then.id}`, { kind: "sequence", first, then }, hasEmpty);
  }

  any(parts: readonly Language[]): Language {
    return this.#joined("any", parts, this.nothing, this.every);
  }

  all(parts: readonly Language[]): Language {
    return this.#joined("all", parts, this.every, this.nothing);
  }

  #joined(kind: "any" | "all", parts: readonly Language[], neutral: Language, whole: Language): Language {
    const flat = new Set(parts.flatMap((one) => (one.kind === kind ? one.parts : [one])));
    this.spend(Math.ceil(flat.size / 2));
    flat.delete(neutral);
    const list = [...flat].sort((a, b) => a.id - b.id);
    const [only = neutral] = list;
    if (list.length <= 1) return only;
    if (flat.has(whole)) return whole;
    const hasEmpty = kind === "any" ? list.some((one) => one.hasEmpty) : list.every((one) => one.hasEmpty);
    return this.#made(`${kind} ${list.map(({ id }) => id).join()}`, { kind, parts: list }, hasEmpty);
  }

  not(other: Language): Language {
    if (other.kind === "not") return other.other;
    if (other === this.nothing) return this.every;
    if (other === this.every) return this.nothing;
    return this.#made(`not ${other.id}`, { kind: "not", other }, !other.hasEmpty);
  }

  repeated(once: Language, least: number, most = Number.POSITIVE_INFINITY): Language {
    if (most === 0 || once === this.empty || (once === this.nothing && least === 0)) return this.empty;
    if (once === this.nothing || (least === 1 && most === 1)) return once;
    const fewest = once.hasEmpty ? 0 : least;
    const form = { kind: "repeated", once, least: fewest, most } as const;
    return this.#made(`${once.id}{${fewest},${most}}`, form, fewest === 0);
  }

  /** Digits of numbers that a whole number divides. */
  multiples(divisor: number, remainder = 0): Language {
    return this.#made(`${remainder} % ${divisor}`, { kind: "multiple", divisor, remainder }, remainder === 0);
  }

  /** What may stand behind a character: the derivative. */
  #behind(character: number, language: Language): Language {
    this.spend(1);
    const behind = (one: Language) => this.#behind(character, one);
    switch (language.kind) {
      case "set":
        return language.characters.has(character) ? this.empty : this.nothing;
      case "sequence": {
        const { first, then } = language;
        const whole = this.#followed(behind(first), then);
        return first.hasEmpty ? this.any([whole, behind(then)]) : whole;
      }
      case "any":
        return this.any(language.parts.map(behind));
      case "all":
        return this.all(language.parts.map(behind));
      case "not":
        return this.not(behind(language.other));
      case "repeated": {
        const { once, least, most } = language;
        return this.#followed(behind(once), this.repeated(once, Math.max(0, least - 1), most - 1));
      }
      case "multiple": {
        const { divisor, remainder } = language;
        const digit = character - ZERO;
        return digit >= 0 && digit < 10 ? this.multiples(divisor, (10 * remainder + digit) % divisor) : this.nothing;
      }
    }
  }

  /** Sets of which one has the first character, or none has it. */
  #firsts(language: Language): readonly CharSet[] {
    this.spend(1);
    switch (language.kind) {
      case "set":
        return [language.characters];
      case "sequence": {
        const first = this.#firsts(language.first);
        return language.first.hasEmpty ? [...first, ...this.#firsts(language.then)] : first;
      }
      case "any":
      case "all":
        return language.parts.flatMap((one) => this.#firsts(one));
      case "not":
        return this.#firsts(language.other);
      case "repeated":
        return this.#firsts(language.once);
      case "multiple":
        return digits;
    }
  }

  #edgesOf(language: Language): ReadonlyMap<Language, readonly Range[]> {
    const known = this.#edges.get(language);
    if (known) return known;
    const sets = [...new Set(this.#firsts(language))];
    this.spend(sets.reduce((sum, { ranges }) => sum + Math.ceil(ranges.length / AT_ONCE), 0));
    const begins = new Set([0, ...sets.flatMap(({ ranges }) => ranges.flatMap(({ min, max }) => [min, max + 1]))]);
    this.spend(Math.ceil((begins.size * (sets.length + 2)) / AT_ONCE));
    const cuts = [...begins, MAXIMUM + 1].sort((a, b) => a - b);
    /** What is behind a character of the same sets as another is the same. */
    const alike = new Map<string, Language>();
    const edges = new Map<Language, Range[]>();
    for (const [index, min] of cuts.entries()) {
      if (min > MAXIMUM) break;
      const key = sets.map((set) => (set.has(min) ? "1" : "0")).join("");
      const to = alike.get(key) ?? this.#behind(min, language);
      alike.set(key, to);
      if (to === this.nothing) continue;
      const range = { min, max: (cuts[index + 1] as number) - 1 };
      const ranges = edges.get(to);
      if (ranges) ranges.push(range);
      else edges.set(to, [range]);
    }
    this.#edges.set(language, edges);
    return edges;
  }

  /**
   * The automaton's states, the first of them being the initial one; none where there is no text. From each a text can end: no other is kept.
   *
   * @throws TooLarge
   */
  statesOf(language: Language): readonly State[] {
    const all = new Set([language]);
    const before = new Map<Language, Language[]>();
    // Those that are added meanwhile have their turn.
    for (const state of all) {
      if (all.size > MOST_STATES) throw new TooLarge();
      for (const to of this.#edgesOf(state).keys()) {
        before.set(to, [...(before.get(to) ?? []), state]);
        all.add(to);
      }
    }
    const ending = new Set([...all].filter(({ hasEmpty }) => hasEmpty));
    for (const state of ending) for (const one of before.get(state) ?? []) ending.add(one);
    const kept = [...all].filter((state) => ending.has(state));
    const numbers = new Map(kept.map((state, number) => [state, number]));
    return kept.map((state) => ({
      final: state.hasEmpty,
      edges: [...this.#edgesOf(state)].flatMap(([next, ranges]) => {
        const to = numbers.get(next);
        return to === undefined ? [] : [{ ranges: setOf(ranges).ranges, to }];
      }),
    }));
  }
}
