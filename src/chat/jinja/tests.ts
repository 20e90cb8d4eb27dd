/** Jinja's tests: `x is defined`, and as `select` and `selectattr` name them. */
import {
  Callable,
  compare,
  contains,
  equal,
  fail,
  Generator,
  isDict,
  isNumber,
  isText,
  lengthOf,
  Markup,
  Range,
  text,
  typeName,
  Undefined,
  unsupported,
  type Value,
  View,
} from "./values.js";

type Test = (value: Value, ...args: readonly Value[]) => boolean;

function remainder(value: Value, by: bigint): bigint | number {
  if (typeof value === "bigint") return value % by;
  if (typeof value === "number") return value % Number(by);
  if (typeof value === "boolean") return BigInt(value) % by;
  return fail(`a value of type ${typeName(value)} cannot be divided`);
}

const cased =
  (pattern: RegExp, other: RegExp): Test =>
  (value) =>
    pattern.test(text(value)) && !other.test(text(value));
const UPPER = /\p{Uppercase}/u;
const LOWER = /\p{Lowercase}/u;

const isEqual: Test = (value, other) => equal(value, other as Value);
const isUnequal: Test = (value, other) => !equal(value, other as Value);
const ordered =
  (holds: (order: number) => boolean): Test =>
  (value, other) =>
    holds(compare(value, other as Value));
const less = ordered((order) => order < 0);
const lessOrEqual = ordered((order) => order <= 0);
const greater = ordered((order) => order > 0);
const greaterOrEqual = ordered((order) => order >= 0);

/** By their names: whether they hold, and how many arguments they take. */
const tests: Readonly<Record<string, readonly [Test, number]>> = {
  boolean: [(value) => typeof value === "boolean", 0],
  callable: [(value) => value instanceof Callable || value instanceof Undefined, 0],
  defined: [(value) => !(value instanceof Undefined), 0],
  undefined: [(value) => value instanceof Undefined, 0],
  none: [(value) => value === null, 0],
  true: [(value) => value === true, 0],
  false: [(value) => value === false, 0],
  escaped: [(value) => value instanceof Markup, 0],
  string: [isText, 0],
  number: [isNumber, 0],
  integer: [(value) => typeof value === "bigint", 0],
  float: [(value) => typeof value === "number", 0],
  mapping: [isDict, 0],
  sequence: [(value) => (!(value instanceof View) || value instanceof Range) && lengthOf(value) !== undefined, 0],
  iterable: [
    // A generator would be gone through by looking.
    (value) => value instanceof Generator || lengthOf(value) !== undefined,
    0,
  ],
  lower: [cased(LOWER, /[\p{Uppercase}\p{Lt}]/u), 0],
  upper: [cased(UPPER, /[\p{Lowercase}\p{Lt}]/u), 0],
  odd: [(value) => Math.abs(Number(remainder(value, 2n))) === 1, 0],
  even: [(value) => Number(remainder(value, 2n)) === 0, 0],
  divisibleby: [
    (value, by) =>
      typeof by === "bigint" && by !== 0n ? Number(remainder(value, by)) === 0 : unsupported("this divisor"),
    1,
  ],
  in: [(value, whole) => contains(whole as Value, value), 1],
  sameas: [
    (value, other) =>
      other === null || typeof other === "boolean" ? value === other : unsupported("sameas of other than a constant"),
    1,
  ],
  eq: [isEqual, 1],
  equalto: [isEqual, 1],
  "==": [isEqual, 1],
  ne: [isUnequal, 1],
  "!=": [isUnequal, 1],
  lt: [less, 1],
  lessthan: [less, 1],
  "<": [less, 1],
  le: [lessOrEqual, 1],
  "<=": [lessOrEqual, 1],
  gt: [greater, 1],
  greaterthan: [greater, 1],
  ">": [greater, 1],
  ge: [greaterOrEqual, 1],
  ">=": [greaterOrEqual, 1],
};

/** @throws TemplateError for a test that hone lacks, and for arguments that it does not take */
export function holds(name: string, value: Value, args: readonly Value[] = []): boolean {
  const [test, count] = (Object.hasOwn(tests, name) ? tests[name] : undefined) ?? unsupported(`the test ${name}`);
  if (args.length !== count) return fail(`the test ${name} takes ${count} arguments`);
  return test(value, ...args);
}
