/** Numbers within bounds, as regular expressions over the texts in which JSON writes them. */

/** Digits of an integer: more than any id has. */
const MOST_DIGITS = 20;
/** Digits behind the point. */
const MOST_FRACTION = 16;

const INTEGER = `(?:0|[1-9][0-9]{0,${MOST_DIGITS - 1}})`;
const FRACTION = `(?:\\.[0-9]{1,${MOST_FRACTION}})`;
export const INTEGERS = `-?${INTEGER}`;
/** Without exponents, in which bounds would not be seen. */
export const DECIMALS = `-?${INTEGER}${FRACTION}?`;

export interface Bound {
  readonly value: number | bigint;
  /** Whether the value itself is out of bounds. */
  readonly exclusive: boolean;
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

const oneOf = (...alternatives: readonly (string | undefined)[]) => {
  const given = alternatives.filter((one) => one !== undefined);
  return given.length === 0 ? "[]" : `(?:${given.join("|")})`;
};
const digit = (from: number, to: number) => (from > to ? undefined : `[${from}-${to}]`);
const times = (count: number) => `[0-9]{${count}}`;

/** Texts of digits as long as `digits` that are above, or below. The first of several is not 0. */
function sameWidth(digits: string, above: boolean): string {
  const alternatives = [...digits].map((character, index) => {
    const own = Number(character);
    const least = index === 0 && digits.length > 1 ? 1 : 0;
    const other = above ? digit(own + 1, 9) : digit(least, own - 1);
    return other && `${digits.slice(0, index)}${other}${times(digits.length - 1 - index)}`;
  });
  return oneOf(...alternatives);
}

const ANY_TAIL = `${FRACTION}?`;
const ZERO_TAIL = "(?:\\.0+)?";

/** What follows the point where the digits there are compared with those of a bound. */
function tail(part: string, above: boolean, exclusive: boolean): string {
  const [first, ...others] = part;
  const ends = above ? (exclusive ? "0*[1-9][0-9]*" : "[0-9]*") : exclusive ? undefined : "0*";
  if (first === undefined) return ends ?? "[]";
  const own = Number(first);
  const rest = others.join("");
  const beside = above ? digit(own + 1, 9) : digit(0, own - 1);
  const further = rest === "" ? ends : tail(rest, above, exclusive);
  return oneOf(
    beside && `${beside}[0-9]*`,
    further === undefined ? undefined : `${first}${further}`,
    // Missing digits are zeros: less than those of the bound.
    !above && rest !== "" ? first : undefined,
  );
}

/** Numbers without a sign of at least (`above`) or at most the magnitude of a bound. */
function magnitudes(
  { whole, part }: { readonly whole: string; readonly part: string },
  above: boolean,
  exclusive: boolean,
) {
  const width = whole.length;
  const other = sameWidth(whole, above);
  const wider = above ? `[1-9][0-9]{${width},}` : undefined;
  const narrower = !above && width > 1 ? oneOf("0", `[1-9][0-9]{0,${width - 2}}`) : undefined;
  const fraction = (() => {
    if (part !== "") return above ? `\\.${tail(part, above, exclusive)}` : `(?:\\.${tail(part, above, exclusive)})?`;
    if (above) return exclusive ? `\\.${tail("", above, exclusive)}` : ANY_TAIL;
    return exclusive ? "[]" : ZERO_TAIL;
  })();
  return oneOf(`${oneOf(wider, narrower, other)}${ANY_TAIL}`, `${whole}${fraction}`);
}

/** Texts of numbers that are not below, or not above, a bound. */
export function boundedBy({ value, exclusive }: Bound, side: "below" | "above"): string {
  const digits = digitsOf(value);
  const anyNumber = `[0-9]+${ANY_TAIL}`;
  if (side === "below") {
    if (digits.negative) return oneOf(`-${magnitudes(digits, false, exclusive)}`, anyNumber);
    return magnitudes(digits, true, exclusive);
  }
  if (digits.negative) return `-${magnitudes(digits, true, exclusive)}`;
  // -0 is not below 0.
  if (exclusive && Number(value) === 0) return `-${magnitudes(digits, true, true)}`;
  return oneOf(`-${anyNumber}`, magnitudes(digits, false, exclusive));
}
