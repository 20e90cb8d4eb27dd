/**
 * Regular languages: patterns of JSON Schema and their intersections, as deterministic automata. A grammar made of one has a
 * single way to read a text, so that it costs little while tokens are sampled.
 */
import { CharSet, DFA, JS, NFA, TooManyNodesError } from "refa";
import { translated, Untranslatable } from "../chat/patterns.js";

export type Language = DFA;

const MAXIMUM = 0x10ffff;
/** States of one automaton at most: each becomes a rule of the grammar. */
const MOST_STATES = 2000;

/** Repetitions of what has an assertion in it, which are written out. */
const MOST_UNROLLED = 4;
/** Steps of work over all automata of a request: a tenth or two of a second of the thread that serves all requests. */
const MOST_STEPS = 300_000;
/** Steps that no part takes from those behind it, or half of what is left: what comes to nothing may cost all of its own. */
const LEFT = 50_000;
/** Steps for a node of each kind beside its transitions, and for an automaton however small. As measured: about a microsecond each. */
const NFA_NODE = 10;
const DFA_NODE = 50;
const AUTOMATON = 500;
/** Transitions that are looked at in one step. */
const AT_ONCE = 8;

type Expression = ReturnType<JS.Parser["parse"]>["expression"];
type Concatenation = Expression["alternatives"][number];
type Element = Concatenation["elements"][number];

/** A pattern that is none, or with a part that has no automaton here. */
export class Unwritable extends Error {}
/** A pattern whose automaton would be too large. */
class TooLarge extends Unwritable {
  constructor() {
    super("its grammar would be too large");
  }
}

/** What is known of the place in a text: its beginning, behind its beginning, or neither. */
type Place = "beginning" | "behind" | "unknown";

/** What automata cost, counted while they are made: the same on every machine. */
export class Work {
  #steps = 0;
  #most = MOST_STEPS;

  get steps(): number {
    return this.#steps;
  }

  /** Whether nothing may be made any more. */
  get over(): boolean {
    return this.#steps + AUTOMATON > MOST_STEPS;
  }

  /** What would cost more than is left is not begun. @throws TooLarge */
  spend(steps: number): void {
    if (this.#steps + steps > this.#most) throw new TooLarge();
    this.#steps += steps;
  }

  /** What a part of the request makes, with work left for the others. */
  part<T>(make: (work: Work) => T): T {
    this.#most = MOST_STEPS - Math.min(LEFT, (MOST_STEPS - this.#steps) / 2);
    try {
      return make(this);
    } finally {
      this.#most = MOST_STEPS;
    }
  }
}

/** Nodes of an automaton, each for some steps. */
function nodesFor<T extends NFA.Node | DFA.Node>(inner: { createNode(): T }, work: Work, steps: number) {
  return {
    createNode: () => {
      work.spend(steps);
      return inner.createNode();
    },
  };
}
const nfaNodes = (work: Work, steps = NFA_NODE) => nodesFor(new NFA.LimitedNodeFactory(2 * MOST_STATES), work, steps);
export const dfaNodes = (work: Work, steps: number) => nodesFor(new DFA.LimitedNodeFactory(MOST_STATES), work, steps);
export const options = { maxCharacter: MAXIMUM };

interface Size {
  readonly nodes: number;
  readonly transitions: number;
}

function sizeOf(automaton: NFA | DFA): Size {
  const size = { nodes: 0, transitions: 0 };
  for (const { out } of automaton.nodes()) {
    size.nodes++;
    size.transitions += out instanceof Map ? out.size : out.entryCount;
  }
  return size;
}

/** Steps for a node of a copy. */
const perCopy = ({ nodes, transitions }: Size) => NFA_NODE + Math.ceil(transitions / nodes);

/** Steps for a node of an intersection, which has the pairs of transitions of two nodes. */
const perPair = (a: Size, b: Size) => DFA_NODE + Math.ceil((a.transitions / a.nodes) * (b.transitions / b.nodes));

/** Runs work that may make too many states. */
function limited<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw error instanceof TooManyNodesError ? new TooLarge() : error;
  }
}

function minimal(dfa: DFA, work: Work): DFA {
  const { nodes, transitions } = sizeOf(dfa);
  work.spend(Math.ceil((transitions * Math.log2(nodes + 1)) / AT_ONCE));
  dfa.minimize();
  return dfa;
}

function deterministic(nfa: NFA, work: Work): DFA {
  const size = sizeOf(nfa);
  const ranges = new Set<number>();
  const sets = new Set<CharSet>();
  for (const { out } of nfa.nodes()) {
    for (const set of out.values()) {
      if (sets.has(set)) continue;
      sets.add(set);
      for (const { min, max } of set.ranges) ranges.add(min).add(max + 1);
    }
  }
  // Each set is compared with each range; a state stands for nodes of the automaton, all of them at most.
  work.spend(Math.ceil((sets.size * ranges.size) / AT_ONCE));
  return minimal(DFA.fromFA(nfa, dfaNodes(work, DFA_NODE + Math.ceil(size.transitions / AT_ONCE))), work);
}

/** @throws TooLarge */
export const intersection = (a: Language, b: Language, work: Work): Language =>
  limited(() => minimal(DFA.fromIntersection(a, b, dfaNodes(work, perPair(sizeOf(a), sizeOf(b)))), work));

const allTexts = () => NFA.all(options);

/** Characters from one to another. */
export interface Range {
  readonly min: number;
  readonly max: number;
}

export const setOf = (ranges: readonly Range[]) => CharSet.empty(MAXIMUM).union(ranges);
export const charactersOf = (codes: readonly number[]) => setOf(codes.map((code) => ({ min: code, max: code })));

/** Texts of any characters but some. */
export const textsWithout = (ranges: readonly Range[], work: Work): Language => {
  const nfa = NFA.fromCharSet(setOf(ranges).negate(), nfaNodes(work));
  nfa.quantify(0, Number.POSITIVE_INFINITY, nfaNodes(work));
  return deterministic(nfa, work);
};

/** The place behind an element: what may have read nothing leaves it open. */
const next = (place: Place, element: Element): Place =>
  place === "behind" || element.type === "Assertion" ? place : "unknown";

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

/** Automata of parts of patterns. */
class Reading {
  constructor(readonly work: Work) {}

  copy(nfa: NFA): NFA {
    return nfa.copy(nfaNodes(this.work, perCopy(sizeOf(nfa))));
  }

  union(parts: readonly NFA[]): NFA {
    const [first = NFA.empty(options), ...others] = parts;
    for (const other of others) first.union(other, nfaNodes(this.work, perCopy(sizeOf(other))));
    return first;
  }

  append(first: NFA, second: NFA): NFA {
    const size = sizeOf(second);
    // What begins the second is copied for each node that may end the first.
    this.work.spend(first.finals.size * perCopy(size));
    first.append(second, nfaNodes(this.work, perCopy(size)));
    return first;
  }

  /** What alternatives and the texts behind them read together. */
  alternatives(list: readonly Concatenation[], place: Place, tail: NFA): NFA {
    return this.union(list.map(({ elements }) => this.#sequence(elements, place, tail)));
  }

  /** What an element without assertions reads. */
  #plain(element: Element): NFA {
    this.work.spend(Math.ceil(stepsOf(element).transitions / AT_ONCE));
    const ast = [{ type: "Concatenation" as const, elements: [element] }];
    return NFA.fromRegex(ast, options, {}, nfaNodes(this.work));
  }

  /** What elements in their order and the texts behind them read together. An assertion tells of all that follows. */
  #sequence(elements: readonly Element[], place: Place, tail: NFA): NFA {
    const places = [place];
    for (const element of elements) places.push(next(places.at(-1) as Place, element));
    let read = this.copy(tail);
    for (const [index, element] of [...elements.entries()].reverse()) {
      const here = places[index] as Place;
      if (isBeginning(element)) {
        if (here === "unknown") throw new Unwritable("a ^ that may stand at the beginning or behind it has no grammar");
        if (here === "behind") read = NFA.empty(options);
      } else if (element.type === "Assertion") {
        if (element.kind === "behind")
          throw new Unwritable("what looks behind, or at the edge of a word, has no grammar");
        const ahead = deterministic(this.alternatives(element.alternatives, here, allTexts()), this.work);
        const size = sizeOf(ahead);
        if (element.negate) ahead.complement(dfaNodes(this.work, perCopy(size)));
        const own = deterministic(read, this.work);
        read = NFA.fromIntersection(own, ahead, nfaNodes(this.work, perPair(sizeOf(own), sizeOf(ahead))));
      } else if (!hasAssertion(element)) {
        read = this.append(this.#plain(element), read);
      } else if (element.type === "Alternation") {
        read = this.alternatives(element.alternatives, here, read);
      } else if (element.type === "Quantifier" && element.max <= MOST_UNROLLED) {
        const after = read;
        for (let turn = element.max; turn > 0; turn--) {
          const own = this.alternatives(element.alternatives, turn === 1 ? here : next(here, element), read);
          read = turn > element.min ? this.union([this.copy(after), own]) : own;
        }
      } else {
        throw new Unwritable("an assertion that is repeated has no grammar");
      }
    }
    return read;
  }
}

/** Transitions of an element at most when its repetitions are written out, and whether it may read nothing. */
function stepsOf(element: Element): { readonly transitions: number; readonly nothing: boolean } {
  if (!("alternatives" in element)) return { transitions: 1, nothing: false };
  const each = element.alternatives.map(({ elements }) => elements.map(stepsOf));
  const transitions = each.flat().reduce((sum, one) => sum + one.transitions, 1);
  const nothing = each.some((one) => one.every((part) => part.nothing));
  if (element.type !== "Quantifier") return { transitions, nothing };
  const times = Number.isFinite(element.max) ? element.max : element.min + 1;
  // Where a turn may read nothing, each leads to all later ones.
  return { transitions: transitions * times * (nothing ? times : 1), nothing: nothing || element.min === 0 };
}

function expressionOf(pattern: string, work: Work): Expression {
  work.spend(AUTOMATON + pattern.length);
  try {
    const { source, flags } = translated(pattern);
    const parser = JS.Parser.fromLiteral({ source, flags });
    return parser.parse({ backreferences: "throw", maxNodes: 2 * MOST_STATES }).expression;
  } catch (error) {
    if (error instanceof TooManyNodesError) throw error;
    if (error instanceof Untranslatable) throw new Unwritable(error.message);
    throw new Unwritable(/backreference/i.test(String(error)) ? "references back have no grammar" : "it is no pattern");
  }
}

/**
 * Texts in which a pattern of JSON Schema is found.
 *
 * @throws Unwritable where it has no automaton, TooLarge where that would be too large, or cost too much
 */
export const patternOf = (pattern: string, work = new Work()): Language =>
  limited(() => found(expressionOf(pattern, work).alternatives, work));

function found(list: readonly Concatenation[], work: Work): Language {
  const reading = new Reading(work);
  const behind = NFA.fromCharSet(CharSet.all(MAXIMUM), nfaNodes(work));
  reading.append(behind, allTexts());
  reading.append(behind, reading.alternatives(list, "behind", allTexts()));
  return deterministic(reading.union([reading.alternatives(list, "beginning", allTexts()), behind]), work);
}

/** Texts that a regular expression of ours matches from the beginning to the end. */
export const textsOf = (source: string, work: Work): Language =>
  limited(() => {
    const nothing = NFA.fromWords([[]], options, nfaNodes(work));
    return deterministic(
      new Reading(work).alternatives(expressionOf(source, work).alternatives, "beginning", nothing),
      work,
    );
  });

/** Texts of whole numbers that a whole number divides, with leading zeros and without. */
export const multiplesOf = (divisor: number, work: Work): Language =>
  limited(() => {
    const builder = new DFA.Builder(dfaNodes(work, DFA_NODE));
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
  readonly edges: readonly { readonly ranges: readonly Range[]; readonly to: number }[];
}

/** The states of a language with texts, the first of them being the initial one. From each a text can end: no other is kept. */
export function statesOf(language: Language): readonly State[] {
  const numbers = new Map([...language.nodes()].map((node, number) => [node, number]));
  return [...numbers.keys()].map((node) => {
    const edges = new Map<number, Range[]>();
    for (const [{ min, max }, to] of node.out) {
      const number = numbers.get(to) as number;
      edges.set(number, [...(edges.get(number) ?? []), { min, max }]);
    }
    return { final: language.finals.has(node), edges: [...edges].map(([to, ranges]) => ({ ranges, to })) };
  });
}
