/** Python's operators. */
import {
  compare,
  contains,
  equal,
  fail,
  isNumber,
  isText,
  listsOf,
  Markup,
  numberOf,
  Tuple,
  text,
  typeName,
  unsupported,
  type Value,
} from "./values.js";

/** Longest text or list that a repetition makes. */
const LONGEST = 1_000_000;

/** Python's remainder of floats, which has the sign of the divisor. */
function modulo(a: number, b: number): number {
  const remainder = a % b;
  if (remainder === 0) return b < 0 ? -0 : 0;
  return remainder < 0 === b < 0 ? remainder : remainder + b;
}

/** Python's floor division of floats. */
function floored(a: number, b: number): number {
  const quotient = (a - modulo(a, b)) / b;
  const floor = Math.floor(quotient);
  return quotient - floor > 0.5 ? floor + 1 : floor;
}

/** Rounded down, where BigInt rounds towards 0. */
const remainder = (of: bigint, by: bigint) => ((of % by) + by) % by;

const ofInts: Readonly<Record<string, (a: bigint, b: bigint) => Value>> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => Number(a) / Number(b),
  "//": (a, b) => (a - remainder(a, b)) / b,
  "%": remainder,
  "**": (a, b) => (b >= 0n && b <= 1000n ? a ** b : unsupported("such a power")),
};
const ofFloats: Readonly<Record<string, (a: number, b: number) => Value>> = {
  "+": (a, b) => a + b,
  "-": (a, b) => a - b,
  "*": (a, b) => a * b,
  "/": (a, b) => a / b,
  "//": floored,
  "%": modulo,
  // C's pow and JavaScript's differ in the last digit.
  "**": () => unsupported("a power of other than whole numbers"),
};

function calculate(operator: string, a: number | bigint, b: number | bigint): Value {
  if (["/", "//", "%"].includes(operator) && Number(b) === 0) return fail("a number is divided by 0");
  const result =
    typeof a === "bigint" && typeof b === "bigint"
      ? ofInts[operator]?.(a, b)
      : ofFloats[operator]?.(Number(a), Number(b));
  return result ?? fail(`there is no operator ${operator} between numbers`);
}

const ENTITIES: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  "'": "&#39;",
  '"': "&#34;",
};
const escaped = (value: string | Markup) =>
  typeof value === "string" ? value.replace(/[&<>'"]/g, (found) => ENTITIES[found] as string) : value.text;

const isCount = (value: Value): value is bigint | boolean => typeof value === "bigint" || typeof value === "boolean";

function repeated(value: Value, count: bigint | boolean): Value | undefined {
  const times = Math.max(0, Number(count));
  const allowed = (length: number) => length * times <= LONGEST || fail("a repetition becomes too long");
  if (typeof value === "string") return allowed(value.length) && value.repeat(times);
  if (!Array.isArray(value) || value instanceof Tuple) return undefined;
  return allowed(value.length) && Array.from({ length: times }, () => value).flat();
}

function sum(a: Value, b: Value): Value | undefined {
  if (typeof a === "string" && typeof b === "string") return a + b;
  // What is added to a text that is marked safe is escaped.
  if (isText(a) && isText(b)) return new Markup(escaped(a) + escaped(b));
  const [left, right] = listsOf(a, b) ?? [];
  return left && right && left.concat(right);
}

/** All binary operators but `and` and `or`, whose right side may stay unevaluated. */
export function operate(operator: string, a: Value, b: Value): Value {
  switch (operator) {
    case "==":
      return equal(a, b);
    case "!=":
      return !equal(a, b);
    case "<":
      return compare(a, b) < 0;
    case "<=":
      return compare(a, b) <= 0;
    case ">":
      return compare(a, b) > 0;
    case ">=":
      return compare(a, b) >= 0;
    case "in":
      return contains(b, a);
    case "not in":
      return !contains(b, a);
    case "~":
      return text(a) + text(b);
  }
  if (isNumber(a) && isNumber(b)) return calculate(operator, numberOf(a), numberOf(b));
  const many = operator === "*" ? (isCount(b) ? repeated(a, b) : isCount(a) ? repeated(b, a) : undefined) : undefined;
  const result = operator === "+" ? sum(a, b) : many;
  if (result !== undefined) return result;
  if (operator === "%" && isText(a)) return unsupported("the formatting of a text by %");
  return fail(`there is no operator ${operator} between values of type ${typeName(a)} and ${typeName(b)}`);
}

export function signed(operator: string, value: Value): Value {
  if (!isNumber(value)) return fail(`there is no ${operator} of a value of type ${typeName(value)}`);
  const number = numberOf(value);
  return operator === "-" ? -number : number;
}
