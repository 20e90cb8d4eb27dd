/** Numbers within bounds, in the texts in which JSON writes them: without exponents, in which bounds would not be seen. */
import type { Language, Languages } from "./automata.js";

/** Digits of an integer, more than any id has, and digits behind the point. */
const MOST_WHOLE = 20;
const MOST_FRACTION = 16;

export interface Bound {
  readonly value: number | bigint;
  /** Whether the value itself is out of bounds. */
  readonly exclusive: boolean;
  /** Whether numbers below it are out of bounds, or those above. */
  readonly side: "below" | "above";
}

/** Digits before and behind the point, of the number without its sign; the latter without zeros at the end. */
function digitsOf(value: number | bigint): { readonly whole: string; readonly part: string } {
  const [, first = "", rest = "", exponent = "0"] = /^-?(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(value)) ?? [];
  const point = first.length + Number(exponent);
  const digits = `${"0".repeat(Math.max(0, -point))}${first}${rest}`.padEnd(point, "0");
  const at = Math.max(0, point);
  return {
    whole: digits.slice(0, at).replace(/^0+(?=\d)/, "") || "0",
    part: digits.slice(at).replace(/0+$/, ""),
  };
}

const minusIn = (languages: Languages) => languages.text("-");
const pointIn = (languages: Languages) => languages.text(".");

/** Numbers, all of them or whole ones. */
export function numbers(integer: boolean, languages: Languages): Language {
  const { empty } = languages;
  const digit = languages.digits(0);
  const longer = languages.sequence(languages.digits(1), languages.repeated(digit, 0, MOST_WHOLE - 1));
  const fraction = languages.sequence(pointIn(languages), languages.repeated(digit, 1, MOST_FRACTION));
  return languages.sequence(
    languages.any([empty, minusIn(languages)]),
    languages.any([languages.digits(0, 0), longer]),
    integer ? empty : languages.any([empty, fraction]),
  );
}

/** Texts that begin as a number without a sign that is more than this one, or as much where that is not exclusive. */
function moreThan(value: number | bigint, exclusive: boolean, languages: Languages): Language {
  const { whole, part } = digitsOf(value);
  const { empty, nothing, every } = languages;
  const digit = languages.digits(0);
  const behindPoint = (then: Language) => languages.sequence(pointIn(languages), then);
  /** A digit that is as much, with what may follow it, or one that is more. */
  const compared = (own: number, behindEqual: Language, behindMore: Language) =>
    languages.any([
      languages.sequence(languages.digits(own, own), behindEqual),
      languages.sequence(languages.digits(own + 1), behindMore),
    ]);
  const zeros = languages.repeated(languages.digits(0, 0), 0);
  const beyond = exclusive ? languages.sequence(zeros, languages.digits(1), every) : every;
  const ofPart = [...part].reduceRight((behind, one) => compared(Number(one), behind, every), beyond);
  const isWhole = part === "" && !exclusive;
  let asWide = languages.any([isWhole ? empty : nothing, behindPoint(ofPart)]);
  for (const [left, one] of [...whole].reverse().entries()) {
    const end = languages.any([empty, behindPoint(every)]);
    asWide = compared(Number(one), asWide, languages.sequence(languages.repeated(digit, left, left), end));
  }
  const wider = languages.sequence(languages.digits(1), languages.repeated(digit, whole.length, whole.length), every);
  return languages.any([asWide, wider]);
}

/** Numbers on one side of a bound, among other texts. */
export function within({ value, exclusive, side }: Bound, languages: Languages): Language {
  const minus = minusIn(languages);
  const negative = languages.sequence(minus, languages.every);
  const positive = languages.not(negative);
  const isPast = side === "below" ? value < 0 : value > 0 || (Number(value) === 0 && !exclusive);
  if (!isPast) {
    const more = moreThan(value, exclusive, languages);
    return side === "below" ? more : languages.sequence(minus, more);
  }
  const less = languages.not(moreThan(value, !exclusive, languages));
  return side === "below"
    ? languages.any([positive, languages.sequence(minus, less)])
    : languages.any([negative, languages.all([positive, less])]);
}
