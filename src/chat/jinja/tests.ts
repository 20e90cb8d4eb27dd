/** Jinja's tests: `x is defined`, and as `select` and `selectattr` name them. */
import { operate } from "./operators.js";
import {
  Callable,
  fail,
  isDict,
  isNumber,
  isText,
  Lazy,
  lengthOf,
  Markup,
  text,
  typeName,
  Undefined,
  unsupported,
  type Value,
} from "./values.js";

/** Whether it holds. It takes as many arguments as it has parameters behind the first. */
type Test = (value: Value, other: Value) => boolean;

function remainder(value: Value, by: bigint): number {
  if (typeof value === "bigint" || typeof value === "boolean") return Number(BigInt(value) % by);
  return typeof value === "number" ? value % Number(by) : fail(`a value of type ${typeName(value)} cannot be divided`);
}

const UPPER = /\p{Uppercase}/u;
const LOWER = /\p{Lowercase}/u;
const TITLE = /\p{Lt}/u;

/** Tests that are operators, also by these names. */
const OPERATORS: Readonly<Record<string, string>> = {
  ...Object.fromEntries(["==", "!=", "<", "<=", ">", ">=", "in"].map((operator) => [operator, operator])),
  eq: "==",
  equalto: "==",
  ne: "!=",
  lt: "<",
  lessthan: "<",
  le: "<=",
  gt: ">",
  greaterthan: ">",
  ge: ">=",
};

const tests: Readonly<Record<string, Test>> = {
  boolean: (value) => typeof value === "boolean",
  callable: (value) => value instanceof Callable || value instanceof Undefined,
  defined: (value) => !(value instanceof Undefined),
  undefined: (value) => value instanceof Undefined,
  none: (value) => value === null,
  true: (value) => value === true,
  false: (value) => value === false,
  escaped: (value) => value instanceof Markup,
  string: isText,
  number: isNumber,
  integer: (value) => typeof value === "bigint",
  float: (value) => typeof value === "number",
  mapping: isDict,
  sequence: (value) => (value instanceof Lazy ? value.kind === "range" : lengthOf(value) !== undefined),
  // A generator would be gone through by looking.
  iterable: (value) => value instanceof Lazy || lengthOf(value) !== undefined,
  lower: (value) => LOWER.test(text(value)) && !UPPER.test(text(value)) && !TITLE.test(text(value)),
  upper: (value) => UPPER.test(text(value)) && !LOWER.test(text(value)) && !TITLE.test(text(value)),
  odd: (value) => Math.abs(remainder(value, 2n)) === 1,
  even: (value) => remainder(value, 2n) === 0,
  divisibleby: (value, by) =>
    typeof by === "bigint" && by !== 0n ? remainder(value, by) === 0 : unsupported("this divisor"),
  sameas: (value, other) =>
    other === null || typeof other === "boolean" ? value === other : unsupported("sameas of other than a constant"),
};

const named = <T>(all: Readonly<Record<string, T>>, name: string) => (Object.hasOwn(all, name) ? all[name] : undefined);

/** @throws TemplateError for a test that hone lacks, and for arguments that it does not take */
export function holds(name: string, value: Value, args: readonly Value[] = []): boolean {
  const operator = named(OPERATORS, name);
  const test: Test =
    operator === undefined
      ? (named(tests, name) ?? unsupported(`the test ${name}`))
      : (a, b) => operate(operator, a, b) as boolean;
  const [other = null] = args;
  if (args.length !== test.length - 1) return fail(`the test ${name} takes ${test.length - 1} arguments`);
  return test(value, other);
}
