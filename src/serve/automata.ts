/**
 * Regular languages: patterns of JSON Schema and their intersections, as deterministic automata. A grammar made of one has a
 * single way to read a text, so that it costs little while tokens are sampled.
 */
import { CharSet, DFA, JS, NFA, TooManyNodesError } from "refa";

export type Language = DFA;

const MAXIMUM = 0x10ffff;
/** States of one automaton at most: each becomes a rule of the grammar. */
const MOST_STATES = 2000;

/** Repetitions of what has an assertion in it, which are written out. */
const MOST_UNROLLED = 4;

type Expression = ReturnType<JS.Parser["parse"]>["expression"];
type Concatenation = Expression["alternatives"][number];
type Element = Concatenation["elements"][number];

/** Transitions before an automaton is made deterministic, whose number times that of the states tells what it costs. */
const MOST_TRANSITIONS = 20_000;

/** A pattern that is none, or with a part that has no automaton here. */
export class Unwritable extends Error {}
/** A pattern whose automaton would be too large. */
export class TooLarge extends Unwritable {
  constructor() {
    super("its grammar would be too large");
  }
}

/** What is known of the place in a text: its beginning, behind its beginning, or neither. */
type Place = "beginning" | "behind" | "unknown";

const nfaNodes = () => new NFA.LimitedNodeFactory(2 * MOST_STATES);
const dfaNodes = () => new DFA.LimitedNodeFactory(MOST_STATES);
const options = { maxCharacter: MAXIMUM };

/** Runs work that may make too many states. */
function limited<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof TooManyNodesError ? new TooLarge() : error;
  }
}

function deterministic(nfa: NFA): DFA {
  const transitions = [...nfa.nodes()].reduce((sum, { out }) => sum + out.size, 0);
  if (transitions > MOST_TRANSITIONS) throw new TooLarge();
  const dfa = DFA.fromFA(nfa, dfaNodes());
  dfa.minimize();
  return dfa;
}

/** @throws TooLarge */
export const intersection = (a: Language, b: Language): Language =>
  limited(() => {
    const both = DFA.fromIntersection(a, b, dfaNodes());
    both.minimize();
    return both;
  });

const allTexts = () => NFA.all(options);

/** Texts of any characters but some. */
export const textsWithout = (ranges: readonly { min: number; max: number }[]): Language => {
  const nfa = NFA.fromCharSet(CharSet.empty(MAXIMUM).union(ranges).negate(), nfaNodes());
  nfa.quantify(0, Number.POSITIVE_INFINITY, nfaNodes());
  return deterministic(nfa);
};

/** Whether an element reads no character: -1, at least one: 1, or either: 0. */
function reach(element: Element): -1 | 0 | 1 {
  if (element.type === "Assertion") return -1;
  if (element.type === "CharacterClass") return 1;
  if (element.type === "Unknown") return 0;
  const all = element.alternatives.map(({ elements }) => elements.map(reach));
  if (element.type === "Quantifier" && element.min === 0) return 0;
  if (all.every((one) => one.includes(1))) return 1;
  return all.every((one) => one.every((each) => each === -1)) ? -1 : 0;
}

/** The place behind an element. */
function next(place: Place, element: Element): Place {
  if (place === "behind") return place;
  const read = reach(element);
  if (read === 1) return "behind";
  return read === -1 ? place : "unknown";
}

const hasAssertion = (element: Element): boolean =>
  element.type === "Assertion" ||
  ("alternatives" in element && element.alternatives.some(({ elements }) => elements.some(hasAssertion)));

/** Whether an assertion is `^`: no character stands before. */
const isBeginning = (element: Element): boolean =>
  element.type === "Assertion" &&
  element.kind === "behind" &&
  element.negate &&
  element.alternatives.length === 1 &&
  element.alternatives[0]?.elements.length === 1 &&
  element.alternatives[0].elements[0]?.type === "CharacterClass" &&
  element.alternatives[0].elements[0].characters.isAll;

function unionOf(parts: readonly NFA[]): NFA {
  const [first = NFA.empty(options), ...others] = parts;
  for (const other of others) first.union(other, nfaNodes());
  return first;
}

/** What alternatives and the texts behind them read together. */
const alternatives = (list: readonly Concatenation[], place: Place, tail: NFA): NFA =>
  unionOf(list.map(({ elements }) => sequence(elements, place, tail)));

/** What elements in their order and the texts behind them read together. An assertion tells of all that follows. */
function sequence(elements: readonly Element[], place: Place, tail: NFA): NFA {
  const places = [place];
  for (const element of elements) places.push(next(places.at(-1) as Place, element));
  let read = tail.copy(nfaNodes());
  for (const [index, element] of [...elements.entries()].reverse()) {
    const here = places[index] as Place;
    if (isBeginning(element)) {
      if (here === "unknown") throw new Unwritable("a ^ that may stand at the beginning or behind it has no grammar");
      if (here === "behind") read = NFA.empty(options);
    } else if (element.type === "Assertion") {
      if (element.kind === "behind")
        throw new Unwritable("what looks behind, or at the edge of a word, has no grammar");
      const ahead = deterministic(alternatives(element.alternatives, here, allTexts()));
      if (element.negate) ahead.complement(dfaNodes());
      read = NFA.fromIntersection(deterministic(read), ahead, nfaNodes());
    } else if (!hasAssertion(element)) {
      const own = NFA.fromRegex([{ type: "Concatenation", elements: [element] }], options, {}, nfaNodes());
      own.append(read, nfaNodes());
      read = own;
    } else if (element.type === "Alternation") {
      read = alternatives(element.alternatives, here, read);
    } else if (element.type === "Quantifier" && element.max <= MOST_UNROLLED) {
      const after = read;
      for (let turn = element.max; turn > 0; turn--) {
        const own = alternatives(element.alternatives, turn === 1 ? here : next(here, element), read);
        read = turn > element.min ? unionOf([after.copy(nfaNodes()), own]) : own;
      }
    } else {
      throw new Unwritable("an assertion that is repeated has no grammar");
    }
  }
  return read;
}

function expressionOf(pattern: string): Expression {
  try {
    const parser = JS.Parser.fromLiteral({ source: pattern, flags: "u" });
    return parser.parse({ backreferences: "throw", maxNodes: 2 * MOST_STATES }).expression;
  } catch (error) {
    if (error instanceof TooManyNodesError) throw error;
    throw new Unwritable(/backreference/i.test(String(error)) ? "references back have no grammar" : "it is no pattern");
  }
}

/**
 * Texts in which a pattern of JSON Schema is found.
 *
 * @throws Unwritable where it has no automaton, TooLarge where that would be too large
 */
export const patternOf = (pattern: string): Language => limited(() => found(expressionOf(pattern).alternatives));

function found(list: readonly Concatenation[]): Language {
  const behind = NFA.fromCharSet(CharSet.all(MAXIMUM), nfaNodes());
  behind.append(allTexts(), nfaNodes());
  behind.append(alternatives(list, "behind", allTexts()), nfaNodes());
  return deterministic(unionOf([alternatives(list, "beginning", allTexts()), behind]));
}

/** Texts that a regular expression of ours matches from the beginning to the end. */
export const textsOf = (source: string): Language => patternOf(`^(?:${source})$`);

/** Texts of whole numbers that a whole number divides, with leading zeros and without. */
export const multiplesOf = (divisor: number): Language =>
  limited(() => {
    const builder = new DFA.Builder(dfaNodes());
    const remainders = Array.from({ length: divisor }, () => builder.createNode());
    const [none] = remainders as [DFA.Node];
    const digits = (node: DFA.Node, remainder: number) => {
      for (let digit = 0; digit < 10; digit++) {
        const to = remainders[(10 * remainder + digit) % divisor] as DFA.Node;
        builder.linkNodes(node, to, CharSet.fromCharacter(MAXIMUM, 0x30 + digit));
      }
    };
    for (const [remainder, node] of remainders.entries()) digits(node, remainder);
    const negative = builder.createNode();
    digits(negative, 0);
    digits(builder.initial, 0);
    builder.linkNodes(builder.initial, negative, CharSet.fromCharacter(MAXIMUM, 0x2d));
    builder.makeFinal(none);
    return DFA.fromBuilder(builder, options);
  });

export interface State {
  readonly final: boolean;
  readonly edges: readonly { readonly ranges: readonly { min: number; max: number }[]; readonly to: number }[];
}

/** The states from which a text can still end, the first of them being the initial one; none where there are no texts. */
export function statesOf(language: Language): readonly State[] {
  const nodes = [...language.nodes()];
  const before = new Map<DFA.Node, DFA.Node[]>();
  for (const node of nodes) {
    for (const to of node.out.values()) before.set(to, [...(before.get(to) ?? []), node]);
  }
  const ending = new Set(language.finals);
  for (const node of ending) for (const from of before.get(node) ?? []) ending.add(from);
  if (!ending.has(language.initial)) return [];
  const kept = [language.initial, ...nodes.filter((node) => node !== language.initial && ending.has(node))];
  const numbers = new Map(kept.map((node, number) => [node, number]));
  return kept.map((node) => {
    const edges = new Map<number, { min: number; max: number }[]>();
    for (const [{ min, max }, to] of node.out) {
      const number = numbers.get(to);
      if (number !== undefined) edges.set(number, [...(edges.get(number) ?? []), { min, max }]);
    }
    return { final: language.finals.has(node), edges: [...edges].map(([to, ranges]) => ({ ranges, to })) };
  });
}

/** Least and greatest number of characters of the texts. */
export function lengthsOf(states: readonly State[]): { readonly least: number; readonly most: number } {
  let least = 0;
  for (let reached = new Set([0]); ![...reached].some((at) => states[at]?.final); least++) {
    reached = new Set([...reached].flatMap((at) => (states[at] as State).edges.map(({ to }) => to)));
  }
  /** The longest way from a state; infinite where a circle is on it. */
  const longest = new Map<number, number>();
  const order: { at: number; done: boolean }[] = [{ at: 0, done: false }];
  const open = new Set<number>();
  while (order.length > 0) {
    const { at, done } = order.pop() as { at: number; done: boolean };
    const { edges } = states[at] as State;
    if (done) {
      open.delete(at);
      longest.set(at, Math.max(0, ...edges.map(({ to }) => 1 + (longest.get(to) ?? Number.POSITIVE_INFINITY))));
    } else if (!longest.has(at) && !open.has(at)) {
      open.add(at);
      order.push({ at, done: true });
      for (const { to } of edges) {
        if (open.has(to)) return { least, most: Number.POSITIVE_INFINITY };
        order.push({ at: to, done: false });
      }
    }
  }
  return { least, most: longest.get(0) as number };
}
