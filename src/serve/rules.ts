/** Rules of a grammar in GBNF, llama.cpp's notation, for JSON. */
import { charactersOf, type Range, type State, setOf } from "./automata.js";

/** Characters that need no escape, from the first behind ASCII on: neither halves of characters nor numbers beyond the last. */
const WIDE = "\\u0080-\\uD7FF\\uE000-\\U0010FFFF";
const ESCAPED = '"\\\\" ["\\\\/bfnrt] | "\\\\u" unit';
/** Space between the parts of JSON is as models write it: more would be an endless turn. */
const COMMON: readonly [name: string, body: string][] = [
  // Halves of a character in pairs alone, which count as one: a single half is no text to many programs.
  [
    "unit",
    '[0-9a-cA-CefEF] [0-9a-fA-F]{3} | [dD] ([0-7] [0-9a-fA-F]{2} | [89abAB] [0-9a-fA-F]{2} "\\\\u" [dD] [c-fC-F] [0-9a-fA-F]{2})',
  ],
  ["space", "[ \\n\\t]{0,4}"],
  ["ws", '(" " | "\\n" [ \\t]{0,32})?'],
  ["sp", '" "?'],
  // Exponents of three digits would be infinite to some programs.
  ["number", '"-"? ("0" | [1-9] [0-9]{0,15}) ("." [0-9]{1,16})? ([eE] [-+]? [0-9]{1,2})?'],
  ["integer", '"-"? ("0" | [1-9] [0-9]{0,19})'],
  ["boolean", '"true" | "false"'],
];
/** Rules with texts in them; `~` stands for the suffix of their names. */
const TEXTUAL: readonly [name: string, body: string][] = [
  ["pair", 'string~ sp ":" sp value~'],
  ["object", '"{" ws (pair~ ("," ws pair~)*)? ws "}"'],
  ["array", '"[" ws (value~ ("," ws value~)*)? ws "]"'],
  ["value", 'object~ | array~ | string~ | number | boolean | "null"'],
];
const PLAIN: readonly [name: string, body: string][] = [
  ["char", `[ !#-\\[\\]-~${WIDE}] | ${ESCAPED}`],
  ["string", '"\\"" char* "\\""'],
];
/** Texts without `</`, which JSON can write as `<\/`: a closing tag within a text would be taken for the call's own. */
const TAGLESS: readonly [name: string, body: string][] = [
  ["char-t", `[ !#-;=-\\[\\]-~${WIDE}] | ${ESCAPED}`],
  ["behind-t", `[ !#-.0-;=-\\[\\]-~${WIDE}] | ${ESCAPED}`],
  ["string-t", '"\\"" (char-t | "<"+ behind-t)* "<"* "\\""'],
];
const suffixed = (suffix: string) =>
  TEXTUAL.map(([name, body]): [string, string] => [`${name}${suffix}`, body.replaceAll("~", suffix)]);
const BASE = [...COMMON, ...PLAIN, ...suffixed(""), ...TAGLESS, ...suffixed("-t")];

/** Characters of JSON texts that are not written as they are. */
const ESCAPES: readonly [code: number, written: string][] = [
  ...([0x22, 0x5c] as const).map((code): [number, string] => [code, `\\${String.fromCharCode(code)}`]),
  ...([..."\b\f\n\r\t"] as const).map((one): [number, string] => [one.charCodeAt(0), JSON.stringify(one).slice(1, -1)]),
];
const SLASH = 0x2f;
/** Characters that are not in texts of patterns: other control characters, and halves of characters. */
export const UNWRITTEN: readonly Range[] = [
  { min: 0, max: 7 },
  { min: 0xb, max: 0xb },
  { min: 0xe, max: 0x1f },
  { min: 0x7f, max: 0x7f },
  { min: 0xd800, max: 0xdfff },
];

/** A text in GBNF. */
export const literal = (text: string) =>
  `"${text.replace(/[\\"\n\r\t]/g, (one) => (one === '"' ? '\\"' : JSON.stringify(one).slice(1, -1)))}"`;

const hex = (code: number) => `\\U${code.toString(16).padStart(8, "0").toUpperCase()}`;
const shown = (code: number) => (/[0-9A-Za-z]/.test(String.fromCharCode(code)) ? String.fromCharCode(code) : hex(code));

function classOf(ranges: readonly Range[]): string {
  return `[${ranges.map(({ min, max }) => (min === max ? shown(min) : `${shown(min)}-${shown(max)}`)).join("")}]`;
}

/** Where texts that are the same up to a place differ first. */
function commonEnd(texts: readonly string[], from: number): number {
  const [first = ""] = texts;
  let end = first.length;
  for (const text of texts) {
    let at = from;
    while (at < end && text[at] === first[at]) at++;
    end = at;
  }
  // Not within a pair.
  return end > from && /[\ud800-\udbff]/.test(first[end - 1] as string) ? end - 1 : end;
}

export class Rules {
  readonly #bodies = new Map<string, string>(BASE);
  readonly #names = new Map<string, string>();
  #count = 0;

  /** The name of a rule with this body. */
  add(body: string): string {
    const known = this.#names.get(body);
    if (known !== undefined) return known;
    const name = this.reserve();
    this.#names.set(body, name);
    this.define(name, body);
    return name;
  }

  /** A new name, to be defined: for rules that refer to themselves. */
  reserve(): string {
    return `r${this.#count++}`;
  }

  define(name: string, body: string): void {
    this.#bodies.set(name, body);
  }

  /**
   * Texts, each with a rule for what stands behind it, or with nothing, as a part of a rule's body. What several begin with is
   * read once, so that a turn is not compared with all of them.
   */
  choice(entries: readonly (readonly [text: string, behind: string])[], from = 0): string {
    const [[first, behind]] = entries as [readonly [string, string]];
    if (entries.length === 1)
      return [literal(first.slice(from)), behind].filter((one) => one !== "" && one !== '""').join(" ") || '""';
    const end = commonEnd(
      entries.map(([text]) => text),
      from,
    );
    const groups = new Map<number | undefined, (readonly [string, string])[]>();
    for (const entry of entries) {
      // A whole character: halves are no text.
      const begin = entry[0].codePointAt(end);
      const group = groups.get(begin);
      if (group) group.push(entry);
      else groups.set(begin, [entry]);
    }
    const body = this.add([...groups.values()].map((group) => this.choice(group, end)).join(" | "));
    return end === from ? body : `${literal(first.slice(from, end))} ${body}`;
  }

  /**
   * Members of an object in their order, some of them optional.
   *
   * @param how what stands before each value, behind it, and between members
   */
  members(
    members: readonly { readonly key: string; readonly value: string; readonly optional: boolean }[],
    { before = "", behind: closing = "", between }: { before?: string; behind?: string; between: string },
  ): string {
    /** The member and those behind it, without its key. */
    const bodies: string[] = [];
    /** Those that may come next at an index: up to the next that is required. */
    const nextOf = (index: number) => {
      const required = members.findIndex((member, at) => at >= index && !member.optional);
      const to = required < 0 ? members.length : required + 1;
      const keys = members.slice(index, to).map(({ key }, at): [string, string] => [key, bodies[index + at] as string]);
      return { rule: keys.length > 0 ? this.choice(keys) : undefined, mayEnd: required < 0 };
    };
    for (let index = members.length - 1; index >= 0; index--) {
      const { rule, mayEnd } = nextOf(index + 1);
      const more = rule && `${between} ${rule}`;
      const behind = this.add([...(mayEnd ? ['""'] : []), ...(more ? [more] : [])].join(" | "));
      bodies[index] = this.add(`${before} ${members[index]?.value} ${closing} ${behind}`);
    }
    const { rule, mayEnd } = nextOf(0);
    return mayEnd ? `(${rule})?` : (rule as string);
  }

  /**
   * A rule for the texts of an automaton.
   *
   * @param quoted whether they are JSON's texts: in quotes, with escapes
   * @param tagless whether these are to hold no `</`
   */
  automaton(states: readonly State[], quoted: boolean, tagless: boolean): string {
    const escapes = quoted ? (tagless ? [...ESCAPES, [SLASH, "\\/"] as const] : ESCAPES) : [];
    const escaped = charactersOf(escapes.map(([code]) => code));
    const names = states.map(() => this.reserve());
    for (const [index, { final, edges }] of states.entries()) {
      const alternatives = edges.flatMap(({ ranges, to }) => {
        const characters = setOf(ranges);
        const raw = characters.without(escaped);
        const written = escapes.filter(([code]) => characters.has(code)).map(([, text]) => literal(text));
        return [...(raw.isEmpty ? [] : [classOf(raw.ranges)]), ...written].map((one) => `${one} ${names[to]}`);
      });
      const end = final ? [quoted ? '"\\""' : '""'] : [];
      this.define(names[index] as string, [...end, ...alternatives].join(" | "));
    }
    return quoted ? this.add(`"\\"" ${names[0]}`) : (names[0] as string);
  }

  /** The grammar's text. */
  text(root: string): string {
    return [`root ::= ${root}`, ...[...this.#bodies].map(([name, body]) => `${name} ::= ${body}`)].join("\n");
  }
}
