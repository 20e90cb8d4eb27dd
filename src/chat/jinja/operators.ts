/** Python's operators. */
import {
  compare,
  contains,
  equal,
  fail,
  isNumber,
  isText,
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

function calculate(operator: string, a: number | bigint, b: number | bigint): Value {
  if (typeof a === "bigint" && typeof b === "bigint") {
    switch (operator) {
      case "+":
        return a + b;
      case "-":
        return a - b;
      case "*":
        return a * b;
      case "**":
        return b >= 0n && b <= 1000n ? a ** b : unsupported("such a power");
    }
  }
  const [left, right] = [Number(a), Number(b)];
  if (right === 0 && ["/", "//", "%"].includes(operator)) return fail("a number is divided by 0");
  const ints = typeof a === "bigint" && typeof b === "bigint";
  // Rounded down, where BigInt rounds towards 0.
  const remainder = (of: bigint, by: bigint) => ((of % by) + by) % by;
  switch (operator) {
    case "+":
      return left + right;
    case "-":
      return left - right;
    case "*":
      return left * right;
    case "/":
      return left / right;
    case "//":
      return ints ? (a - remainder(a, b)) / b : floored(left, right);
    case "%":
      return ints ? remainder(a, b) : modulo(left, right);
    case "**":
      // C's pow and JavaScript's differ in the last digit.
      return unsupported("a power of other than whole numbers");
    default:
      return fail(`there is no operator ${operator} between numbers`);
  }
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

function repeated(value: Value, count: bigint): Value | undefined {
  const times = count < 0n ? 0 : Number(count);
  const allowed = (length: number) => length * times <= LONGEST || fail("a repetition becomes too long");
  if (typeof value === "string") return allowed(value.length) && value.repeat(times);
  if (Array.isArray(value)) return allowed(value.length) && Array.from({ length: times }, () => value).flat();
  return undefined;
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
  if (operator === "+") {
    if (typeof a === "string" && typeof b === "string") return a + b;
    // What is added to a text that is marked safe is escaped.
    if (isText(a) && isText(b)) return new Markup(escaped(a) + escaped(b));
    if (Array.isArray(a) && Array.isArray(b)) return [...a, ...b];
    if (a instanceof Tuple && b instanceof Tuple) return new Tuple([...a.items, ...b.items]);
  }
  if (operator === "*") {
    const product = isCount(b) ? repeated(a, BigInt(b)) : isCount(a) ? repeated(b, BigInt(a)) : undefined;
    if (product !== undefined) return product;
  }
  if (operator === "%" && (isText(a) || a instanceof Markup)) return unsupported("the formatting of a text by %");
  return fail(`there is no operator ${operator} between values of type ${typeName(a)} and ${typeName(b)}`);
}

export function signed(operator: string, value: Value): Value {
  if (!isNumber(value)) return fail(`there is no ${operator} of a value of type ${typeName(value)}`);
  const number = numberOf(value);
  return operator === "-" ? -number : number;
}
