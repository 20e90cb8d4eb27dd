/**
 * Regular expressions of JSON Schemas. The specification asks for those of JavaScript with its flag `u`; servers write those of
 * their own language. What means the same in every dialect that has it is written as JavaScript's, for a test of texts. What
 * dialects read differently, or JavaScript lacks, is not guessed.
 */

/** A pattern that says nothing here, and why. */
export class Untranslatable extends Error {}

/** ASCII, as all dialects have them without further flags. */
const POSIX: Readonly<Record<string, string>> = {
  alnum: "0-9A-Za-z",
  alpha: "A-Za-z",
  ascii: "\\0-\\x7f",
  blank: "\\t ",
  cntrl: "\\0-\\x1f\\x7f",
  digit: "0-9",
  graph: "!-~",
  lower: "a-z",
  print: " -~",
  punct: "!-\\/:-@\\[-`\\{-~",
  space: "\\t-\\r ",
  upper: "A-Z",
  word: "\\w",
  xdigit: "0-9A-Fa-f",
};

/** Escapes that mean the same everywhere, and in JavaScript. */
const SAME = new Set([..."dDwWsS"]);
const CONTROLS: Readonly<Record<string, number>> = { a: 7, e: 0x1b, f: 0xc, n: 0xa, r: 0xd, t: 9, v: 0xb };

const isCased = (text: string) => text.toLowerCase() !== text.toUpperCase();
const compiles = (source: string) => {
  try {
    return Boolean(new RegExp(source, "u"));
  } catch {
    // A property of another dialect.
    return false;
  }
};

/** Patterns are read up to this length. */
const LONGEST = 10_000;

/** Reads one pattern from its beginning to its end. */
class Translation {
  readonly #text: string;
  #at = 0;
  /** What is written, one element for each atom of the group that is open, so that a quantifier finds its atom. */
  #parts: string[] = [];
  #captures = 0;
  #atomics = 0;
  readonly #names = new Map<string, number>();
  /** Whether letters were read whose case matters, and such whose does not. */
  readonly #cased = { told: false, ignored: false };

  constructor(text: string) {
    this.#text = text;
  }

  get compiled(): RegExp {
    const source = this.#alternatives("", 0);
    if (this.#cased.told && this.#cased.ignored)
      throw new Untranslatable("only a part of it ignores the case of letters");
    try {
      return new RegExp(source, this.#cased.ignored ? "iu" : "u");
    } catch {
      // What is left is wrong in every dialect.
      throw new Untranslatable("it is no regular expression");
    }
  }

  #take(pattern: RegExp): RegExpExecArray | undefined {
    const sticky = new RegExp(pattern.source, "uy");
    sticky.lastIndex = this.#at;
    const found = sticky.exec(this.#text);
    if (found) this.#at = sticky.lastIndex;
    return found ?? undefined;
  }

  #seeCase(flags: string): void {
    this.#cased[flags.includes("i") ? "ignored" : "told"] = true;
  }

  #refuse(what: string): never {
    throw new Untranslatable(`${what} is another dialect's, or means different things in different ones`);
  }

  #character(text: string, flags: string): string {
    if (isCased(text)) this.#seeCase(flags);
    return /^[0-9A-Za-z_]$/.test(text) ? text : `\\u{${(text.codePointAt(0) as number).toString(16)}}`;
  }

  /** The alternatives of a group, to its end. */
  #alternatives(given: string, depth: number): string {
    const outer = this.#parts;
    this.#parts = [];
    let flags = given;
    let afterSet = false;
    while (this.#at < this.#text.length) {
      if (flags.includes("x") && this.#take(/\s+|#[^\n]*/)) continue;
      const begun = this.#at;
      if (this.#text[begun] === ")") {
        if (depth === 0) throw new Untranslatable("it is no regular expression");
        break;
      }
      if (afterSet && this.#text[begun] === "]") this.#refuse("a [ within a [class]");
      afterSet = false;
      if (this.#take(/\|/)) this.#parts.push("|");
      else if (this.#take(/\(\?#[^)]*\)/)) continue;
      else if (this.#text[begun] === "(") flags = this.#group(flags, depth);
      else if (this.#take(/\[/)) afterSet = this.#class(flags);
      else if (this.#take(/\\Q[\s\S]*?(?:\\E|$)/)) {
        const quoted = this.#text.slice(begun + 2, this.#at).replace(/\\E$/, "");
        this.#parts.push(...[...quoted].map((one) => this.#character(one, flags)));
      } else if (this.#text[begun] === "\\") this.#parts.push(this.#escape(flags));
      else if (this.#take(/[*+?]|\{\d*,\d+\}|\{\d+,?\}/)) this.#quantify(this.#text.slice(begun, this.#at), flags);
      else if (this.#take(/\^/)) this.#parts.push(flags.includes("m") ? "(?<![^\\n])" : "^");
      else if (this.#take(/\$/)) this.#parts.push(flags.includes("m") ? "(?![^\\n])" : "$");
      else if (this.#take(/\./)) this.#parts.push(flags.includes("s") ? "[^]" : ".");
      else this.#parts.push(this.#character((this.#take(/[\s\S]/) as RegExpExecArray)[0], flags));
    }
    if (depth > 0 && !this.#take(/\)/)) throw new Untranslatable("it is no regular expression");
    const source = this.#parts.join("");
    this.#parts = outer;
    return source;
  }

  /** @returns the flags in force behind it */
  #group(flags: string, depth: number): string {
    const inner = (within: string, before: string, behind = ")") => {
      this.#parts.push(`${before}${this.#alternatives(within, depth + 1)}${behind}`);
      return flags;
    };
    const capture = (name?: string) => {
      const number = ++this.#captures;
      // A name that stands twice cannot be referred to here.
      if (name !== undefined) this.#names.set(name, this.#names.has(name) ? 0 : number);
      return inner(flags, `(?<c${number}>`);
    };
    const begun = this.#at;
    if (this.#take(/\(\*/)) return this.#refuse("a (*VERB)");
    if (!this.#take(/\(\?/)) {
      this.#at++;
      return capture();
    }
    const looking = this.#take(/:|=|!|<=|<!/);
    if (looking) {
      inner(flags, `(?${looking[0]}`);
      // Under the flag u no quantifier may follow an assertion.
      if (looking[0] !== ":") this.#parts.push(`(?:${this.#parts.pop()})`);
      return flags;
    }
    if (this.#take(/>/)) {
      const number = ++this.#atomics;
      return inner(flags, `(?:(?=(?<a${number}>`, `))\\k<a${number}>)`);
    }
    const reference = this.#take(/P=(\w+)\)/);
    if (reference) {
      this.#parts.push(this.#reference(reference[1] as string));
      return flags;
    }
    const named = this.#take(/P?<([\p{L}_]\w*)>/u) ?? this.#take(/'([\p{L}_]\w*)'/u);
    if (named) return capture(named[1]);
    const set = this.#take(/([imsxn]*)(?:-([imsxn]*))?([:)])/);
    if (!set || set[0].includes("n")) return this.#refuse(this.#text.slice(begun, this.#at + 2));
    const [, on = "", off = "", end] = set;
    const changed = [...flags, ...on].filter((flag) => !off.includes(flag)).join("");
    if (end === ")") return changed;
    return inner(changed, "(?:");
  }

  #reference(name: string): string {
    const number = /^\d+$/.test(name) ? Number(name) : this.#names.get(name);
    if (!number || number > this.#captures) return this.#refuse(`a reference to the group ${name}`);
    return `\\k<c${number}>`;
  }

  #quantify(written: string, flags: string): void {
    const atom = this.#parts.pop();
    if (atom === undefined || atom === "|") throw new Untranslatable("it is no regular expression");
    const counted = written.replace(/^\{,/, "{0,");
    if (flags.includes("x")) this.#take(/\s*/);
    if (this.#take(/\+/)) {
      const number = ++this.#atomics;
      this.#parts.push(`(?:(?=(?<a${number}>${atom}${counted}))\\k<a${number}>)`);
    } else {
      this.#parts.push(`${atom}${counted}${this.#take(/\?/) ? "?" : ""}`);
    }
  }

  /** A character that an escape names, within a class or outside; undefined where it is none. */
  #named(flags: string): string | undefined {
    const code = this.#take(
      /x\{\s*([0-9a-fA-F]+)\s*\}|x([0-9a-fA-F]{2})|u\{([0-9a-fA-F]+)\}|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})/,
    );
    if (code) return this.#coded(Number.parseInt(code.slice(1).find((one) => one !== undefined) as string, 16), flags);
    const octal = this.#take(/o\{([0-7]+)\}|(0[0-7]{0,2})/);
    if (octal) return this.#coded(Number.parseInt((octal[1] ?? octal[2]) as string, 8), flags);
    const control = this.#take(/c([A-Za-z])/);
    if (control) return this.#coded((control[1] as string).toUpperCase().charCodeAt(0) ^ 64, flags);
    const letter = this.#take(/[aefnrtv]/);
    if (letter) return this.#coded(CONTROLS[letter[0]] as number, flags);
    // What is no letter and no digit stands for itself.
    const itself = this.#take(/[^0-9A-Za-z]/);
    return itself && this.#character(itself[0], flags);
  }

  #coded(code: number, flags: string): string {
    if (code > 0x10ffff) throw new Untranslatable("it is no regular expression");
    return this.#character(String.fromCodePoint(code), flags);
  }

  /** A set of characters that an escape names; undefined where it names none. */
  #set(flags: string): string | undefined {
    const property = this.#take(/([pP])(?:\{(\^?)\s*([\w=\- ]+?)\s*\}|([A-Z]))/);
    if (property) {
      const [written, letter, not = "", long, short] = property;
      const negated = (letter === "P") !== (not === "^");
      const name = (long ?? short) as string;
      const plain = name.replace(/^Is(?=[A-Z])/, "");
      const found = [name, plain, `Script=${plain}`].find((one) => compiles(`\\p{${one}}`));
      if (found === undefined) return this.#refuse(`\\${written}`);
      if (/^(General_Category=|gc=)?(L[ult]|Upper|Lower|Titlecase|(Upp|Low)ercase)/.test(found)) {
        this.#seeCase(flags);
      }
      return `\\${negated ? "P" : "p"}{${found}}`;
    }
    const [letter = ""] = this.#text.slice(this.#at);
    if (!SAME.has(letter)) return undefined;
    this.#at++;
    return `\\${letter}`;
  }

  #escape(flags: string): string {
    this.#at++;
    if (this.#at === this.#text.length) throw new Untranslatable("it is no regular expression");
    const set = this.#set(flags);
    if (set !== undefined) return set;
    if (this.#take(/A/)) return "(?<![^])";
    if (this.#take(/[zZ]/)) return "(?![^])";
    const edge = this.#take(/[bB](?!\{)/);
    if (edge) return `\\${edge[0]}`;
    if (this.#take(/R/)) return "(?:\\r\\n|[\\n-\\r\\x85\\u2028\\u2029])";
    if (this.#take(/N(?!\{)/)) return "[^\\n]";
    if (this.#take(/E/)) return "";
    const reference =
      this.#take(/([1-9]\d?)(?!\d)/) ?? this.#take(/g\{?(\d+)\}?/) ?? this.#take(/k(?:<(\w+)>|'(\w+)'|\{(\w+)\})/);
    if (reference) return this.#reference(reference.slice(1).find((one) => one !== undefined) as string);
    return this.#named(flags) ?? this.#refuse(`\\${this.#text[this.#at]}`);
  }

  /** A class behind its `[`. @returns whether a [ stood in it that is not escaped */
  #class(flags: string): boolean {
    const written: string[] = [this.#take(/\^/) ? "[^" : "["];
    if (this.#text[this.#at] === "]") this.#refuse("a ] at the beginning of a [class]");
    let opened = false;
    /** Whether the element before is a single character, from which a range may go on. */
    let single = false;
    for (;;) {
      if (this.#at >= this.#text.length) throw new Untranslatable("it is no regular expression");
      if (this.#take(/\]/)) break;
      if (this.#take(/&&/)) this.#refuse("&& in a [class]");
      const posix = this.#take(/\[:(\^?)(\w+):\]/);
      if (posix) {
        const set = POSIX[posix[2] as string];
        if (set === undefined || posix[1] !== "") return this.#refuse(posix[0]);
        if (/^(lower|upper)$/.test(posix[2] as string)) this.#seeCase(flags);
        written.push(set);
        single = false;
        continue;
      }
      if (this.#take(/\[[.=]/)) this.#refuse("a collating element");
      const range: boolean =
        single && this.#text[this.#at] === "-" && !/^-(\]|\\[dDwWsSpP]|\[:)/.test(this.#text.slice(this.#at));
      if (range) {
        this.#at++;
        written.push("-", this.#member(flags) as string);
        single = false;
        continue;
      }
      if (this.#text[this.#at] === "[") opened = true;
      const set = this.#text[this.#at] === "\\" ? this.#escapedSet(flags) : undefined;
      written.push(set ?? this.#member(flags));
      single = set === undefined;
    }
    this.#parts.push(`${written.join("")}]`);
    return opened;
  }

  #escapedSet(flags: string): string | undefined {
    this.#at++;
    const set = this.#set(flags);
    if (set === undefined) this.#at--;
    return set;
  }

  /** A single character of a class. */
  #member(flags: string): string {
    if (!this.#take(/\\/)) return this.#character((this.#take(/[\s\S]/) as RegExpExecArray)[0], flags);
    if (this.#take(/b/)) return "\\x08";
    return this.#named(flags) ?? this.#refuse(`\\${this.#text[this.#at] ?? ""} in a [class]`);
  }
}

/** The pattern as JavaScript's. @throws Untranslatable */
export function translated(pattern: string): RegExp {
  try {
    return new RegExp(pattern, "u");
  } catch {
    // It is another dialect's, or wrong.
    if (pattern.length > LONGEST) throw new Untranslatable("it is no regular expression of JavaScript's, and too long");
    return new Translation(pattern).compiled;
  }
}
