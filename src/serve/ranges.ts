/** Numbers within bounds, as automata over the texts in which JSON writes them: without exponents, in which bounds would not be seen. */
import { DFA } from "refa";
import { charactersOf, dfaNodes, type Language, options, type Work } from "./automata.js";

/** Digits of an integer: more than any id has. */
const MOST_DIGITS = 20;
/** Digits behind the point. */
const MOST_FRACTION = 16;
/** Steps for a state that is looked at, and for one that is kept. As measured: about a microsecond each. */
const LOOKED_AT = 5;
const KEPT = 20;

const [MINUS, POINT, ZERO] = [0x2d, 0x2e, 0x30];

export interface Bound {
  readonly value: number | bigint;
  /** Whether the value itself is out of bounds. */
  readonly exclusive: boolean;
  /** Whether numbers below it are out of bounds, or those above. */
  readonly side: "below" | "above";
}

/** Digits before and behind the point, of the number without its sign; the latter without zeros at the end. */
function digitsOf(value: number | bigint): {
  readonly negative: boolean;
  readonly whole: string;
  readonly part: string;
} {
  const [, sign, first = "", rest = "", exponent = "0"] =
    /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value)) ?? [];
  const point = first.length + Number(exponent);
  const digits = `${"0".repeat(Math.max(0, -point))}${first}${rest}`.padEnd(point, "0");
  const at = Math.max(0, point);
  return {
    negative: sign === "-",
    whole: digits.slice(0, at).replace(/^0+(?=\d)/, "") || "0",
    part: digits.slice(at).replace(/0+$/, ""),
  };
}

/** What digits without a sign are compared with. */
interface Limit extends Pick<Bound, "exclusive"> {
  readonly whole: string;
  readonly part: string;
  /** Whether they must not be less, or not be more. */
  readonly least: boolean;
}

/** The limits of numbers of one sign; undefined where none is within the bounds. */
function limitsOf(bounds: readonly Bound[], negative: boolean): Limit[] | undefined {
  const limits: Limit[] = [];
  for (const { value, exclusive, side } of bounds) {
    const { negative: below, whole, part } = digitsOf(value);
    const least = (side === "below") !== negative;
    // -0 is not below 0.
    const isZero = exclusive && Number(value) === 0;
    if (below === negative || (negative && least && isZero)) limits.push({ whole, part, exclusive, least });
    else if (!least) return undefined;
  }
  return limits;
}

/** How digits that were read compare with each limit's: less, equal or more. In the whole part with as many of its digits. */
type Compared = readonly (-1 | 0 | 1)[];

const isWithin = ({ least, exclusive }: Limit, compared: number) =>
  compared === 0 ? !exclusive : compared > 0 === least;

/** The next states of one by character. */
type Edges = ReadonlyMap<number, DFA.Node>;

/** @throws TooLarge */
export function numbersWithin(bounds: readonly Bound[], integer: boolean, work: Work): Language {
  const builder = new DFA.Builder(dfaNodes(work, KEPT));
  /** States by what can be read from them: none is there twice. */
  const kept = new Map<string, DFA.Node>();
  const numbers = new Map<DFA.Node, number>();

  const link = (node: DFA.Node, edges: Edges) => {
    for (const to of new Set(edges.values()))
      builder.linkNodes(node, to, charactersOf([...edges.keys()].filter((character) => edges.get(character) === to)));
  };
  const keep = (final: boolean, edges: Edges): DFA.Node | undefined => {
    if (!final && edges.size === 0) return undefined;
    const key = `${final} ${[...edges].map(([character, to]) => `${character}:${numbers.get(to)}`).join()}`;
    const known = kept.get(key);
    if (known) return known;
    const node = builder.createNode();
    kept.set(key, node);
    numbers.set(node, numbers.size);
    if (final) builder.makeFinal(node);
    link(node, edges);
    return node;
  };

  /** What numbers of one sign begin with. */
  const beginOf = (negative: boolean): Edges => {
    const limits = limitsOf(bounds, negative);
    if (!limits) return new Map();
    const seen = new Map<string, DFA.Node | undefined>();
    const once = (key: string, make: () => DFA.Node | undefined) => {
      if (!seen.has(key)) {
        work.spend(LOOKED_AT);
        seen.set(key, make());
      }
      return seen.get(key);
    };
    const edgesTo = (...edges: readonly (readonly [number, DFA.Node | undefined])[]): Edges =>
      new Map(edges.filter((edge): edge is [number, DFA.Node] => edge[1] !== undefined));
    /** What each digit leads to. Where all limits are decided, that is the same. */
    const digits = (
      from: number,
      compared: Compared,
      digitIn: (limit: Limit) => string | undefined,
      to: (next: Compared) => DFA.Node | undefined,
    ) => {
      const decided = compared.includes(0) ? undefined : to(compared);
      return Array.from({ length: 10 - from }, (_, i) => {
        const digit = from + i;
        const beside = (limit: Limit) => Math.sign(digit - Number(digitIn(limit) ?? 0)) as Compared[number];
        const next = () => to(compared.map((one, at) => one || beside(limits[at] as Limit)));
        return [ZERO + digit, compared.includes(0) ? next() : decided] as const;
      });
    };

    const fraction = (length: number, compared: Compared): DFA.Node | undefined => {
      if (limits.some((limit, i) => compared[i] !== 0 && !isWithin(limit, compared[i] as number))) return undefined;
      return once(`.${length} ${compared}`, () => {
        // Digits that are missing are zeros.
        const missing = (i: number) => compared[i] || (length < (limits[i] as Limit).part.length ? -1 : 0);
        const final = length > 0 && limits.every((limit, i) => isWithin(limit, missing(i)));
        const further = (next: Compared) => fraction(length + 1, next);
        return keep(
          final,
          edgesTo(...(length < MOST_FRACTION ? digits(0, compared, ({ part }) => part[length], further) : [])),
        );
      });
    };
    const wholePart = (length: number, asWide: Compared, isZero = false): DFA.Node | undefined => {
      // A wider one is more.
      const compared = asWide.map((one, i) => (length > (limits[i] as Limit).whole.length ? 1 : one));
      const isOver = ({ least, whole }: Limit) => !least && length > whole.length;
      if (limits.some(isOver)) return undefined;
      return once(`${length} ${isZero} ${compared}`, () => {
        const ended = compared.map((one, i) => (length < (limits[i] as Limit).whole.length ? -1 : one));
        const final = limits.every((limit, i) => isWithin(limit, ended[i] || (limit.part === "" ? 0 : -1)));
        const further = (next: Compared) => wholePart(length + 1, next);
        return keep(
          final,
          edgesTo(
            [POINT, integer ? undefined : fraction(0, ended)],
            ...(!isZero && length < MOST_DIGITS ? digits(0, compared, ({ whole }) => whole[length], further) : []),
          ),
        );
      });
    };
    const equal = limits.map(() => 0 as const);
    const zero = limits.map(({ whole }) => (whole === "0" ? 0 : -1));
    const first = (next: Compared) => wholePart(1, next);
    return edgesTo([ZERO, wholePart(1, zero, true)], ...digits(1, equal, ({ whole }) => whole[0], first));
  };

  const minus = keep(false, beginOf(true));
  link(builder.initial, new Map([...(minus ? [[MINUS, minus] as const] : []), ...beginOf(false)]));
  return DFA.fromBuilder(builder, options);
}
